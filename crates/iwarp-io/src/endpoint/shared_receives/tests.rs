use std::sync::atomic::AtomicUsize;

use iwarp::STag;
use proptest::prelude::*;

use super::*;

const SIZES: SharedReceiveSizes = SharedReceiveSizes {
    depth: 4,
    sges: 2,
    max_transfer: 100,
};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Waiter for Woken {
    fn receive_posted(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn queue(threshold: u32) -> Arc<SharedReceives> {
    Arc::new(SharedReceives::new(SIZES, threshold).unwrap())
}

fn member(queue: &Arc<SharedReceives>) -> (Arc<Woken>, Membership) {
    let woken = Arc::new(Woken::default());
    let waiter: Weak<dyn Waiter> = Arc::<Woken>::downgrade(&woken);
    (woken, queue.join(waiter))
}

fn sge(address: u64, length: u32) -> Sge {
    Sge {
        token: STag(7),
        address,
        length,
    }
}

/// The context of the Receive that is drawn, if one is.
fn draw(member: &Membership) -> Option<u64> {
    let mut drawn = None;
    member.draw_to(|context, _| drawn = Some(context));
    drawn
}

#[test]
fn receives_are_drawn_in_the_order_of_their_posts_with_their_sges() {
    let queue = queue(0);
    let (_, one) = member(&queue);
    for round in 0..3 {
        let lists = [vec![], vec![sge(round, 1)], vec![sge(2, 3), sge(4, 5)]];
        for (context, sges) in (0..).zip(&lists) {
            queue.post(context, sges).unwrap();
        }
        assert_eq!(queue.outstanding(), 3);
        for (context, sges) in (0..).zip(&lists) {
            let mut drawn = None;
            one.draw_to(|context, sges| drawn = Some((context, sges.to_vec())));
            assert_eq!(drawn, Some((context, sges.clone())));
        }
        queue.post(9, &[]).unwrap();
        assert_eq!(draw(&one), Some(9));
    }
    assert_eq!(draw(&one), None);
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_the_queue_as_it_was() {
    let queue = queue(0);
    let three = [sge(0, 1); 3];
    assert_eq!(queue.post(0, &three), Err(PostError::TooManySges));
    let long = [sge(0, 60), sge(0, 41)];
    assert_eq!(queue.post(0, &long), Err(PostError::TooLong));
    let huge = [sge(0, u32::MAX), sge(0, u32::MAX)];
    assert_eq!(queue.post(0, &huge), Err(PostError::TooLong));
    for context in 0..4 {
        queue.post(context, &[sge(0, 60), sge(0, 40)]).unwrap();
    }
    assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
    assert_eq!(queue.outstanding(), 4);
}

#[test]
fn a_post_wakes_the_longest_wait_and_keeps_the_receive_for_it() {
    let queue = queue(0);
    let ((first_woken, first), (second_woken, second)) = (member(&queue), member(&queue));
    assert_eq!((draw(&first), draw(&second)), (None, None));
    assert_eq!(draw(&first), None, "asking again is the same wait");
    queue.post(1, &[]).unwrap();
    assert_eq!((first_woken.times(), second_woken.times()), (1, 0));
    let (_, newcomer) = member(&queue);
    assert_eq!((draw(&second), draw(&newcomer)), (None, None));
    assert_eq!(draw(&first), Some(1));
    queue.post(2, &[]).unwrap();
    queue.post(3, &[]).unwrap();
    assert_eq!((first_woken.times(), second_woken.times()), (1, 1));
    assert_eq!((draw(&newcomer), draw(&second)), (Some(2), Some(3)));
}

#[test]
fn whoever_leaves_passes_its_receive_on() {
    let queue = queue(0);
    let ((_, first), (second_woken, second)) = (member(&queue), member(&queue));
    let (third_woken, third) = member(&queue);
    for member in [&first, &second, &third] {
        assert_eq!(draw(member), None);
    }
    queue.post(1, &[]).unwrap();
    drop(first);
    assert_eq!(second_woken.times(), 1);
    wake(second.step_back());
    assert_eq!(third_woken.times(), 1);
    assert_eq!(draw(&third), Some(1));
    // A connection that has left the line is passed over.
    assert_eq!((draw(&second), draw(&third)), (None, None));
    assert!(second.step_back().is_none());
    queue.post(2, &[]).unwrap();
    assert_eq!((second_woken.times(), third_woken.times()), (1, 2));
    assert_eq!(draw(&second), None);
    assert_eq!(draw(&third), Some(2));
}

#[test]
fn the_threshold_is_told_once_for_each_time_somebody_asks() {
    let queue = queue(2);
    let (_, one) = member(&queue);
    assert!(!queue.take_low(), "nobody has asked");
    queue.arm();
    assert!(queue.take_low() && !queue.take_low());
    for context in 0..3 {
        queue.post(context, &[]).unwrap();
    }
    queue.arm();
    assert_eq!(draw(&one), Some(0));
    assert!(!queue.take_low(), "two are not fewer than two");
    assert_eq!(draw(&one), Some(1));
    assert!(queue.take_low() && !queue.take_low());
    assert_eq!(draw(&one), Some(2));
    assert!(!queue.take_low());
    queue.arm();
    queue.disarm();
    assert!(!queue.take_low());
    let off = super::SharedReceives::new(SIZES, 0).unwrap();
    off.arm();
    assert!(!off.take_low());
    off.modify(None, Some(1)).unwrap();
    assert!(off.take_low(), "the new threshold counts at once");
}

#[test]
fn the_depth_changes_and_all_receives_stay() {
    let queue = queue(0);
    let (_, one) = member(&queue);
    for context in 0..4 {
        queue.post(context, &[sge(context, 1)]).unwrap();
    }
    assert_eq!(draw(&one), Some(0));
    queue.post(4, &[]).unwrap();
    assert_eq!(queue.modify(Some(3), Some(9)), Err(CannotModify::TooMany));
    queue.arm();
    assert!(!queue.take_low(), "a refused change has changed nothing");
    queue.modify(Some(6), None).unwrap();
    queue.post(5, &[]).unwrap();
    queue.post(6, &[]).unwrap();
    assert_eq!(queue.post(7, &[]), Err(PostError::QueueFull));
    let contexts: Vec<_> = std::iter::from_fn(|| draw(&one)).collect();
    assert_eq!(contexts, [1, 2, 3, 4, 5, 6]);
}

#[derive(Clone, Debug)]
enum QueueStep {
    Post,
    Draw(usize),
    StepBack(usize),
}

fn steps() -> impl Strategy<Value = Vec<QueueStep>> {
    let step = prop_oneof![
        3 => Just(QueueStep::Post),
        4 => (0..4usize).prop_map(QueueStep::Draw),
        1 => (0..4usize).prop_map(QueueStep::StepBack),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Against a plain model: one list of Receives, one line of those who wait, and who was promised one.
    #[test]
    fn receives_and_waits_keep_their_order(steps in steps()) {
        let queue = queue(0);
        let members: Vec<_> = (0..4).map(|_| member(&queue)).collect();
        let (mut posted, mut line, mut promised) = (VecDeque::new(), VecDeque::new(), Vec::new());
        let mut woken = [0; 4];
        let mut next = 0;
        for step in steps {
            match step {
                QueueStep::Post => {
                    let result = queue.post(next, &[]);
                    prop_assert_eq!(result.is_ok(), posted.len() < 4);
                    if result.is_ok() {
                        posted.push_back(next);
                        next += 1;
                    }
                }
                QueueStep::Draw(at) => {
                    let may = promised.contains(&at) || posted.len() > promised.len();
                    prop_assert_eq!(draw(&members[at].1), if may { posted.pop_front() } else { None });
                    if may {
                        promised.retain(|by| *by != at);
                        line.retain(|by| *by != at);
                    } else if !line.contains(&at) {
                        line.push_back(at);
                    }
                }
                QueueStep::StepBack(at) => {
                    wake(members[at].1.step_back());
                    promised.retain(|by| *by != at);
                    line.retain(|by| *by != at);
                }
            }
            while promised.len() < posted.len() && let Some(first) = line.pop_front() {
                promised.push(first);
                woken[first] += 1;
            }
            for (at, (member, _)) in members.iter().enumerate() {
                prop_assert_eq!(member.times(), woken[at], "wake-ups of {}", at);
            }
            prop_assert_eq!(queue.outstanding(), posted.len());
        }
    }
}
