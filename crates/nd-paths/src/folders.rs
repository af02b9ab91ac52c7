//! Which path leads to the tree, by its text alone.

/// A folder on the way to the tree, or a folder of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folder(usize);

struct Row {
    parent: usize,
    name: &'static [u8],
    path: &'static str,
    is_in_tree: bool,
}

const fn row(parent: usize, name: &'static str, path: &'static str, is_in_tree: bool) -> Row {
    Row {
        parent,
        name: name.as_bytes(),
        path,
        is_in_tree,
    }
}

const FOLDERS: [Row; 11] = [
    row(0, "", "/", false),
    row(0, "sys", "/sys", false),
    row(1, "class", "/sys/class", false),
    row(2, "infiniband", "/sys/class/infiniband", true),
    row(2, "infiniband_verbs", "/sys/class/infiniband_verbs", true),
    row(0, "dev", "/dev", false),
    row(5, "infiniband", "/dev/infiniband", true),
    // The devices themselves, to which the classes have links.
    row(1, "devices", "/sys/devices", false),
    row(7, "virtual", "/sys/devices/virtual", false),
    row(8, "infiniband", "/sys/devices/virtual/infiniband", true),
    row(
        8,
        "infiniband_verbs",
        "/sys/devices/virtual/infiniband_verbs",
        true,
    ),
];

/// Where a path leads: a folder of this list, and what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    /// The absolute path of the folder.
    pub(crate) folder: &'static str,
    /// The rest of the path behind the folder's name: nothing, or a slash and more.
    pub(crate) rest: &'a [u8],
    /// False if the path leaves the tree by `..`: the folder is the system's.
    pub(crate) is_in_tree: bool,
}

/// What the text of a path says about where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk<'a> {
    /// The path does not touch the tree.
    Elsewhere,
    At(Place<'a>),
    /// The path goes on with `..` and `rest` behind a place in the tree. That may be a link, of which the text does not tell where it leads.
    Up {
        from: Place<'a>,
        rest: &'a [u8],
    },
}

impl Folder {
    const ROOT: Self = Self(0);

    fn row(self) -> &'static Row {
        &FOLDERS[self.0]
    }

    /// The absolute path.
    pub(crate) fn path(self) -> &'static str {
        self.row().path
    }

    fn parent(self) -> Self {
        Self(self.row().parent)
    }

    fn child(self, name: &[u8]) -> Option<Self> {
        let is_child = |row: &Row| row.parent == self.0 && row.name == name;
        FOLDERS.iter().position(is_child).map(Self)
    }

    fn place(self, rest: &[u8]) -> Place<'_> {
        Place {
            folder: self.path(),
            rest,
            is_in_tree: self.row().is_in_tree,
        }
    }

    /// Where a path leads that starts in this folder. The folders of the list are no links, so `..` behind them needs no look at the file
    /// system.
    pub(crate) fn walk(self, path: &[u8]) -> Walk<'_> {
        let mut at = self;
        let mut is_named = false; // something within the tree
        let mut was_in_tree = false;
        let mut rest = path;
        let mut end = 0;
        for component in path.split(|octet| *octet == b'/') {
            let start = end;
            end += component.len();
            let behind = path.get(end..).unwrap_or_default();
            match component {
                b"" | b"." => {}
                b".." if is_named => {
                    let len = rest.len() - (path.len() - start);
                    let from = at.place(rest.get(..len).unwrap_or_default());
                    return Walk::Up { from, rest: behind };
                }
                b".." => (at, rest) = (at.parent(), behind),
                _ if at.row().is_in_tree => is_named = true,
                name => match at.child(name) {
                    Some(child) => (at, rest) = (child, behind),
                    None if was_in_tree => return Walk::At(at.place(rest)),
                    None => return Walk::Elsewhere,
                },
            }
            was_in_tree |= at.row().is_in_tree;
            end += 1; // the slash
        }
        match was_in_tree {
            true => Walk::At(at.place(rest)),
            false => Walk::Elsewhere,
        }
    }

    /// The folders in which a relative path would lead to the tree.
    pub(crate) fn starts(path: &[u8]) -> impl Iterator<Item = (Self, Walk<'_>)> {
        let all = (0..FOLDERS.len()).map(Self);
        let on_the_way = all.filter(|folder| !folder.row().is_in_tree);
        let walks = on_the_way.map(|folder| (folder, folder.walk(path)));
        walks.filter(|(_, walk)| *walk != Walk::Elsewhere)
    }
}

/// Where an absolute path leads.
pub(crate) fn absolute(path: &[u8]) -> Walk<'_> {
    Folder::ROOT.walk(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(octets: &[u8]) -> &str {
        std::str::from_utf8(octets).unwrap()
    }

    /// The folder and the rest, if both are in the tree.
    fn to(path: &str) -> Option<(&'static str, &str)> {
        match absolute(path.as_bytes()) {
            Walk::At(place) if place.is_in_tree => Some((place.folder, text(place.rest))),
            _ => None,
        }
    }

    #[test]
    fn paths_of_the_folders_lead_to_the_tree() {
        const IB: &str = "/sys/class/infiniband";
        const VERBS: &str = "/sys/class/infiniband_verbs";
        for (path, folder, rest) in [
            (IB, IB, ""),
            ("/sys/class/infiniband/", IB, "/"),
            ("//sys/./class//infiniband/a/b", IB, "/a/b"),
            ("/../sys/../dev/infiniband/x", "/dev/infiniband", "/x"),
            ("/sys/class/infiniband_verbs/uverbs0", VERBS, "/uverbs0"),
            ("/sys/class/infiniband/../infiniband_verbs/b", VERBS, "/b"),
            (
                "/sys/class/../devices/virtual/infiniband/a",
                "/sys/devices/virtual/infiniband",
                "/a",
            ),
        ] {
            assert_eq!(to(path), Some((folder, rest)), "{path}");
        }
    }

    #[test]
    fn other_paths_do_not() {
        for path in [
            "/",
            "/sys/class",
            "/sys/class/infiniband_mad",
            "/sys/class/infinibandx/a",
            "/sys/class/net/../infiniband",
            "/sys/devices/virtual",
            "/dev/null",
            "/home/sys/class/infiniband",
        ] {
            assert_eq!(absolute(path.as_bytes()), Walk::Elsewhere, "{path}");
        }
    }

    #[test]
    fn a_path_that_leaves_the_tree_is_one_of_the_system() {
        for (path, folder, rest) in [
            ("/sys/class/infiniband/..", "/sys/class", ""),
            ("/sys/class/infiniband/../", "/sys/class", "/"),
            ("/sys/class/infiniband/../net/lo", "/sys/class", "/net/lo"),
            ("/dev/infiniband/../../etc", "/", "/etc"),
        ] {
            let Walk::At(place) = absolute(path.as_bytes()) else {
                panic!("{path}");
            };
            assert!(!place.is_in_tree, "{path}");
            assert_eq!((place.folder, text(place.rest)), (folder, rest));
        }
    }

    #[test]
    fn the_text_does_not_tell_what_is_above_an_entry() {
        for (path, folder, before, rest) in [
            (
                "/sys/class/infiniband/a/../b",
                "/sys/class/infiniband",
                "/a/",
                "/b",
            ),
            (
                "/sys/class/infiniband//a/b/../..",
                "/sys/class/infiniband",
                "//a/b/",
                "/..",
            ),
            ("/dev/infiniband/a/..", "/dev/infiniband", "/a/", ""),
        ] {
            let Walk::Up { from, rest: behind } = absolute(path.as_bytes()) else {
                panic!("{path}");
            };
            assert_eq!((from.folder, text(from.rest)), (folder, before), "{path}");
            assert_eq!(text(behind), rest, "{path}");
        }
    }

    #[test]
    fn relative_paths_have_the_folders_in_which_they_would() {
        let starts = |path: &'static str| {
            let found = Folder::starts(path.as_bytes());
            found
                .map(|(from, walk)| match walk {
                    Walk::At(place) => (from.path(), place.folder),
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            starts("infiniband/a"),
            [
                ("/sys/class", "/sys/class/infiniband"),
                ("/dev", "/dev/infiniband"),
                ("/sys/devices/virtual", "/sys/devices/virtual/infiniband")
            ]
        );
        assert_eq!(
            starts("./sys/class/infiniband"),
            [("/", "/sys/class/infiniband")]
        );
        let up = starts("../dev/infiniband").into_iter();
        let from: Vec<_> = up.map(|(from, _)| from).collect();
        assert_eq!(from, ["/", "/sys", "/dev"]);
        assert!(starts("a/infiniband").is_empty());
        assert!(starts("").is_empty());
    }
}
