//! Chooses the core on which a process runs.

use std::sync::OnceLock;

use nd_base::provider::processors;
use nd_base::stderr;

use super::spec::{Mode, Placement, Spec};
use crate::cores;

/// The role of one of the two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessRole {
    Client,
    Server,
}

/// The cores for one side, out of those that the process may use. `None` if the side may run anywhere.
///
/// Threads inherit the choice, so the adapter's own thread, which starts later, shares the core. In memory mode the system
/// chooses, because there the application's thread never sleeps and the adapter's thread does all the work. An adapter's
/// thread that may run only on its application's core would have to wait for this core.
fn choose(cores: &[usize], spec: &Spec, role: ProcessRole) -> Vec<usize> {
    let chosen = match (spec.placement, spec.mode, role) {
        (Placement::Free, ..) | (Placement::Apart, Mode::Memory, _) => None,
        (Placement::Apart, ..) if cores.len() < 2 => None,
        (Placement::Together, ..) | (Placement::Apart, _, ProcessRole::Client) => cores.first(),
        (Placement::Apart, _, ProcessRole::Server) => cores.get(1),
    };
    chosen.copied().into_iter().collect()
}

/// Returns true if this process could use only one processor at the first call. A loop that polls or reads memory then has to yield to the
/// threads that it waits for.
pub(super) fn is_on_one_processor() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(processors::is_single)
}

/// Says what the rows mean that spin on a single processor, if there are any.
pub(super) fn note_one_processor<'a>(mut rows: impl Iterator<Item = &'a Spec>) {
    if is_on_one_processor() && rows.any(|row| row.mode != Mode::Event) {
        note_yielding();
    }
}

/// Says that what spins here yields.
pub(super) fn note_yielding() {
    stderr::note(
        "this process has one processor only: where it polls, it yields to the threads and processes that it waits for. \
         Figures with --mode poll and --mode memory are those of a busy processor; give each side a processor, or use --mode event",
    );
}

/// Binds the calling thread, and those that it starts from now on. If the system refuses, the thread runs anywhere.
pub(super) fn place(spec: &Spec, role: ProcessRole) {
    let allowed = cores::allowed();
    is_on_one_processor(); // asked before the thread is bound
    let chosen = choose(allowed, spec, role);
    bind(if chosen.is_empty() { allowed } else { &chosen });
}

/// Undoes [`place`], because a process that is started now would inherit the binding.
pub(super) fn anywhere() {
    bind(cores::allowed());
}

/// The two cores to which both processes are bound. `None` if they are not bound to one each.
pub(super) fn both(spec: &Spec) -> Option<[usize; 2]> {
    pair(cores::allowed(), spec)
}

fn pair(cores: &[usize], spec: &Spec) -> Option<[usize; 2]> {
    let core_of = |role| choose(cores, spec, role).first().copied();
    let [client, server] = [core_of(ProcessRole::Client)?, core_of(ProcessRole::Server)?];
    (client != server).then_some([client, server])
}

fn bind(cores: &[usize]) {
    if cores.is_empty() {
        return;
    }
    if let Err(error) = cores::bind(cores) {
        tracing::warn!(target: crate::log::TARGET, %error, ?cores, "cannot choose the cores to run on");
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::tests::SPEC;
    use super::super::spec::{Op, Test};
    use super::*;

    fn chosen(cores: &[usize], spec: &Spec) -> [Vec<usize>; 2] {
        [ProcessRole::Client, ProcessRole::Server].map(|role| choose(cores, spec, role))
    }

    #[test]
    fn apart_is_a_core_each_if_there_are_two() {
        assert_eq!(chosen(&[3, 5, 7], &SPEC), [vec![3], vec![5]]);
        assert_eq!(chosen(&[3], &SPEC), [Vec::<usize>::new(), vec![]]);
        assert_eq!(pair(&[3, 5, 7], &SPEC), Some([3, 5]));
        assert_eq!(pair(&[3], &SPEC), None);
    }

    #[test]
    fn together_is_one_core() {
        let spec = Spec {
            placement: Placement::Together,
            ..SPEC
        };
        assert_eq!(chosen(&[3, 5], &spec), [vec![3], vec![3]]);
        assert_eq!(pair(&[3, 5], &spec), None);
    }

    #[test]
    fn in_memory_mode_the_system_chooses() {
        let spec = Spec {
            op: Op::Write,
            test: Test::Latency,
            mode: Mode::Memory,
            ..SPEC
        };
        assert_eq!(chosen(&[0, 1, 2, 3], &spec), [Vec::<usize>::new(), vec![]]);
    }

    #[test]
    fn on_two_machines_nobody_is_bound() {
        let spec = Spec {
            placement: Placement::Free,
            ..SPEC
        };
        assert_eq!(chosen(&[0, 1], &spec), [Vec::<usize>::new(), vec![]]);
    }
}
