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
    (woken, queue.join(waiter, Weak::<Results>::new()))
}

/// A completion queue, by the number of results that were taken.
#[derive(Default)]
struct Results(AtomicU64);

impl ResultQueue for Results {
    fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn sge(address: u64, length: u32) -> Sge {
    Sge {
        token: STag(7),
        address,
        length,
    }
}

/// Returns the context of the Receive that is drawn, if there is one. Its slot is free at once.
fn draw(member: &Membership) -> Option<u64> {
    let drawn = draw_only(member);
    if drawn.is_some() {
        member.vanished();
    }
    drawn
}

/// Draws a Receive. Its slot stays used.
fn draw_only(member: &Membership) -> Option<u64> {
    let mut drawn = None;
    member.draw_to(|receive, _| drawn = Some(receive.context));
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
            one.draw_to(|receive, sges| {
                let length: u32 = sges.iter().map(|sge| sge.length).sum();
                assert_eq!(receive.length, length);
                drawn = Some((receive.context, sges.to_vec()));
            });
            assert_eq!(drawn, Some((context, sges.clone())));
            one.vanished();
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

/// A member that does not wait takes no Receive that is promised to another one, and leaves nothing behind when it finds none.
#[test]
fn a_member_that_does_not_wait_gets_a_receive_or_none() {
    let queue = queue(0);
    let ((woken, patient), (other_woken, other)) = (member(&queue), member(&queue));
    other.set_waits(false);
    let draw_now = || draw(&other);
    for _ in 0..100 {
        assert_eq!(draw_now(), None);
    }
    assert!(queue.state.lock().line.is_empty());
    assert_eq!(draw(&patient), None);
    queue.post(1, &[]).unwrap();
    assert_eq!((woken.times(), other_woken.times()), (1, 0));
    assert_eq!(draw_now(), None);
    queue.post(2, &[]).unwrap();
    assert_eq!(draw_now(), Some(1), "one is left for the other");
    assert_eq!(draw_now(), None);
    assert_eq!(draw(&patient), Some(2));
}

#[test]
fn receives_drawn_ahead_are_used_in_order_and_the_rest_goes_back() {
    let queue = queue(0);
    let ((_, one), (_, two)) = (member(&queue), member(&queue));
    let lists = [vec![], vec![sge(1, 1)], vec![sge(2, 2), sge(3, 3)], vec![]];
    for (context, sges) in (0..).zip(&lists) {
        queue.post(context, sges).unwrap();
    }
    one.draw_ahead(3);
    assert_eq!(draw_only(&one), Some(0));
    assert_eq!(queue.outstanding(), 1);
    // The Receives that were drawn ahead can come back, so there is no room for another.
    assert_eq!(queue.post(9, &[]), Err(PostError::QueueFull));
    assert_eq!(queue.modify(Some(3), None), Err(CannotModify::TooMany));
    one.give_back();
    assert_eq!(queue.outstanding(), 3);
    assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
    one.vanished();
    queue.post(4, &[]).unwrap();
    for (context, sges) in (1..).zip(&lists[1..]) {
        let mut drawn = None;
        two.draw_to(|receive, sges| drawn = Some((receive.context, sges.to_vec())));
        assert_eq!(drawn, Some((context, sges.clone())));
    }
    two.draw_ahead(9);
    assert_eq!((draw(&two), draw(&two)), (Some(4), None));
    two.give_back();
    assert_eq!(queue.outstanding(), 0);
}

#[test]
fn receives_that_go_back_count_for_the_threshold() {
    let queue = queue(2);
    let (_, one) = member(&queue);
    (0..3).for_each(|context| queue.post(context, &[]).unwrap());
    queue.arm();
    one.draw_ahead(3);
    assert_eq!(draw(&one), Some(0));
    one.give_back();
    assert!(!queue.take_low(), "two are left");
    one.draw_ahead(2);
    assert_eq!(draw(&one), Some(1));
    one.give_back();
    assert!(queue.take_low());
}

#[test]
fn receives_that_go_back_are_promised_to_those_who_wait() {
    let queue = queue(0);
    let ((_, one), (woken, two)) = (member(&queue), member(&queue));
    (0..3).for_each(|context| queue.post(context, &[]).unwrap());
    one.draw_ahead(3);
    assert_eq!(draw(&one), Some(0));
    // Another thread finds the queue in this state.
    std::thread::scope(|threads| {
        threads.spawn(|| assert_eq!(draw(&two), None));
    });
    assert!(!queue.has_due());
    one.give_back();
    assert!(queue.has_due());
    assert_eq!(woken.times(), 0, "driven with no lock held only");
    queue.drive_due();
    assert_eq!((woken.times(), queue.has_due()), (1, false));
    // A Receive is promised to the other connection, so nothing is drawn ahead.
    one.draw_ahead(2);
    assert_eq!(queue.outstanding(), 2);
    one.give_back();
    assert_eq!((draw(&two), draw(&one)), (Some(1), Some(2)));
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
    // A connection that has left the line is skipped.
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
    /// Draws this many Receives ahead, takes up to the second number of them, and gives the others back.
    Visit(usize, usize, usize),
    StepBack(usize),
}

fn steps() -> impl Strategy<Value = Vec<QueueStep>> {
    let step = prop_oneof![
        3 => Just(QueueStep::Post),
        4 => (0..4usize).prop_map(QueueStep::Draw),
        2 => (0..4usize, 2..6usize, 0..6usize)
            .prop_map(|(at, needed, used)| QueueStep::Visit(at, needed, used)),
        1 => (0..4usize).prop_map(QueueStep::StepBack),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Compares with a plain model: one list of Receives, one line of waiting connections, and the connections with a promise.
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
                QueueStep::Visit(at, needed, used) => {
                    let member = &members[at].1;
                    member.draw_ahead(needed);
                    let ahead = if line.is_empty() && promised.is_empty() {
                        needed.min(posted.len())
                    } else {
                        0
                    };
                    for _ in 0..used.min(ahead) {
                        prop_assert_eq!(draw(member), posted.pop_front());
                    }
                    member.give_back();
                    prop_assert!(!queue.has_due(), "nobody waits");
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

/// A queue whose slots are all used, by Receives that two members with completion queues of their own have drawn.
fn drawn_by_two() -> (Arc<SharedReceives>, [Membership; 2], [Arc<Results>; 2]) {
    let queue = queue(0);
    let results = [(); 2].map(|()| Arc::new(Results::default()));
    let members = [0, 1].map(|at| {
        let taken: Weak<dyn ResultQueue> = Arc::<Results>::downgrade(&results[at]);
        queue.join(Weak::<Woken>::new(), taken)
    });
    for context in 0..4 {
        queue.post(context, &[]).unwrap();
    }
    assert_eq!(draw_only(&members[0]), Some(0));
    assert_eq!(draw_only(&members[1]), Some(1));
    assert_eq!(draw_only(&members[0]), Some(2));
    assert_eq!(draw_only(&members[1]), Some(3));
    assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
    (queue, members, results)
}

#[test]
fn a_slot_is_used_until_the_result_was_taken_from_its_completion_queue() {
    let (queue, [one, two], [of_one, of_two]) = drawn_by_two();
    one.placed(10, 1);
    two.placed(3, 2);
    one.placed(12, 1);
    assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
    of_one.0.store(10, Ordering::Relaxed);
    of_two.0.store(3, Ordering::Relaxed);
    assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
    of_two.0.store(5, Ordering::Relaxed);
    for context in [4, 5] {
        queue.post(context, &[]).unwrap();
    }
    assert_eq!(queue.post(6, &[]), Err(PostError::QueueFull));
    assert_eq!(queue.modify(Some(3), None), Err(CannotModify::TooMany));
    // The result between the two is of somebody else.
    of_one.0.store(12, Ordering::Relaxed);
    queue.modify(Some(3), None).unwrap();
    assert_eq!(queue.post(6, &[]), Err(PostError::QueueFull));
    of_one.0.store(13, Ordering::Relaxed);
    queue.post(6, &[]).unwrap();
    assert_eq!(queue.post(7, &[]), Err(PostError::QueueFull));
}

#[test]
fn results_of_a_member_that_has_left_count_and_what_has_no_result_does_not() {
    let (queue, [one, two], [of_one, _of_two]) = drawn_by_two();
    one.placed(0, 1);
    // It was overrun by the other, or never came.
    drop(one);
    queue.post(4, &[]).unwrap();
    assert_eq!(queue.post(5, &[]), Err(PostError::QueueFull));
    two.vanished();
    queue.post(5, &[]).unwrap();
    assert_eq!(queue.post(6, &[]), Err(PostError::QueueFull));
    of_one.0.store(1, Ordering::Relaxed);
    queue.post(6, &[]).unwrap();
    assert_eq!(queue.post(7, &[]), Err(PostError::QueueFull));
}

#[test]
fn results_that_were_removed_do_not_count() {
    let (queue, [one, two], [_of_one, of_two]) = drawn_by_two();
    one.placed(4, 2);
    two.placed(6, 1);
    one.removed(&[3, 4, 5, 6]);
    for context in [4, 5] {
        queue.post(context, &[]).unwrap();
    }
    assert_eq!(queue.post(6, &[]), Err(PostError::QueueFull));
    of_two.0.store(7, Ordering::Relaxed);
    queue.post(6, &[]).unwrap();
    assert_eq!(queue.post(7, &[]), Err(PostError::QueueFull));
}

/// Nobody can take results any more.
#[test]
fn results_in_a_completion_queue_that_is_gone_do_not_count() {
    let (queue, [one, two], [of_one, _of_two]) = drawn_by_two();
    one.placed(0, 2);
    drop(one);
    assert_eq!(queue.post(4, &[]), Err(PostError::QueueFull));
    drop(of_one);
    for context in [4, 5] {
        queue.post(context, &[]).unwrap();
    }
    assert_eq!(queue.post(6, &[]), Err(PostError::QueueFull));
    drop(two);
    assert_eq!(queue.results.lock().len(), 1);
}

/// Wakes the thread of a member.
struct Unpark(std::thread::Thread);

impl Waiter for Unpark {
    fn receive_posted(&self) {
        self.0.unpark();
    }
}

/// Draws Receives, some of them ahead, until all were drawn. Returns the Receives that it has drawn.
fn draw_until_all_are(
    queue: &Arc<SharedReceives>,
    drawn: &AtomicUsize,
    (ahead, all): (usize, usize),
) -> Vec<u64> {
    let waiter = Arc::new(Unpark(std::thread::current()));
    let weak: Weak<dyn Waiter> = Arc::<Unpark>::downgrade(&waiter);
    let member = queue.join(weak, Weak::<Results>::new());
    let mut mine = Vec::new();
    while drawn.load(Ordering::SeqCst) < all {
        member.draw_ahead(ahead);
        let found: Vec<u64> = (0..2).map_while(|_| draw(&member)).collect();
        member.give_back();
        queue.drive_due();
        drawn.fetch_add(found.len(), Ordering::SeqCst);
        if found.len() < 2 && drawn.load(Ordering::SeqCst) < all {
            // The limit only ends a hang: the thread is unparked by each promise of a Receive and by the end of the test.
            let begun = std::time::Instant::now();
            std::thread::park_timeout(std::time::Duration::from_secs(60));
            assert!(begun.elapsed().as_secs() < 50, "nobody woke a member");
        }
        mine.extend(found);
    }
    mine
}

#[test]
fn threads_draw_each_receive_once_and_none_waits_for_ever() {
    const ALL: u64 = 3000;
    let all = usize::try_from(ALL).unwrap();
    let queue = queue(0);
    let drawn = AtomicUsize::new(0);
    let mut found: Vec<u64> = std::thread::scope(|threads| {
        let members: Vec<_> = (1..4)
            .map(|ahead| {
                threads.spawn({
                    let (queue, drawn) = (&queue, &drawn);
                    move || draw_until_all_are(queue, drawn, (ahead + 1, all))
                })
            })
            .collect();
        for context in 0..ALL {
            while queue.post(context, &[sge(context, 1)]).is_err() {
                std::thread::yield_now();
            }
        }
        while drawn.load(Ordering::SeqCst) < all {
            std::thread::yield_now();
        }
        members.iter().for_each(|member| member.thread().unpark());
        let members = members.into_iter();
        members.flat_map(|member| member.join().unwrap()).collect()
    });
    found.sort_unstable();
    assert!(found.into_iter().eq(0..ALL));
}
