//! Chooses the core on which a process runs.

use super::spec::{Mode, Placement, Spec};

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

/// Binds the calling thread, and those that it starts from now on. If the system refuses, the thread runs anywhere.
pub(super) fn place(spec: &Spec, role: ProcessRole) {
    let allowed = system::allowed();
    let chosen = choose(allowed, spec, role);
    system::bind(if chosen.is_empty() { allowed } else { &chosen });
}

/// Undoes [`place`], because a process that is started now would inherit the binding.
pub(super) fn anywhere() {
    system::bind(system::allowed());
}

#[cfg(target_os = "linux")]
mod system {
    use std::sync::OnceLock;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The cores that the process could use at the first call.
    pub(super) fn allowed() -> &'static [usize] {
        static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
        ALLOWED.get_or_init(|| match sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU)
                .filter(|core| set.is_set(*core))
                .collect(),
            Err(_) => Vec::new(),
        })
    }

    pub(super) fn bind(cores: &[usize]) {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        if let Err(error) = sched_setaffinity(None, &set) {
            tracing::warn!(%error, ?cores, "cannot choose the cores to run on");
        }
    }
}

/// Nothing is known about cores here.
#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn allowed() -> &'static [usize] {
        &[]
    }

    pub(super) fn bind(_: &[usize]) {}
}

#[cfg(test)]
mod tests {
    use super::super::spec::tests::SPEC;
    use super::super::spec::{Op, Test};
    use super::*;

    fn both(cores: &[usize], spec: &Spec) -> [Vec<usize>; 2] {
        [ProcessRole::Client, ProcessRole::Server].map(|role| choose(cores, spec, role))
    }

    #[test]
    fn apart_is_a_core_each_if_there_are_two() {
        assert_eq!(both(&[3, 5, 7], &SPEC), [vec![3], vec![5]]);
        assert_eq!(both(&[3], &SPEC), [Vec::<usize>::new(), vec![]]);
    }

    #[test]
    fn together_is_one_core() {
        let spec = Spec {
            placement: Placement::Together,
            ..SPEC
        };
        assert_eq!(both(&[3, 5], &spec), [vec![3], vec![3]]);
    }

    #[test]
    fn in_memory_mode_the_system_chooses() {
        let spec = Spec {
            op: Op::Write,
            test: Test::Latency,
            mode: Mode::Memory,
            ..SPEC
        };
        assert_eq!(both(&[0, 1, 2, 3], &spec), [Vec::<usize>::new(), vec![]]);
    }

    #[test]
    fn on_two_machines_nobody_is_bound() {
        let spec = Spec {
            placement: Placement::Free,
            ..SPEC
        };
        assert_eq!(both(&[0, 1], &spec), [Vec::<usize>::new(), vec![]]);
    }
}
