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

const FOLDERS: [Row; 7] = [
    row(0, "", "/", false),
    row(0, "sys", "/sys", false),
    row(1, "class", "/sys/class", false),
    row(2, "infiniband", "/sys/class/infiniband", true),
    row(2, "infiniband_verbs", "/sys/class/infiniband_verbs", true),
    row(0, "dev", "/dev", false),
    row(5, "infiniband", "/dev/infiniband", true),
];

/// A place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    /// The absolute path of the tree's folder.
    pub(crate) folder: &'static str,
    /// The rest of the path behind the folder's name: nothing, or a slash and more.
    pub(crate) rest: &'a [u8],
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

    /// Where a path leads that starts in this folder. The names of the folders in front of the tree are no links, so `..` behind them needs
    /// no look at the file system.
    pub(crate) fn walk(self, path: &[u8]) -> Option<Place<'_>> {
        let mut at = self;
        let mut depth = 0_usize; // within the tree
        let mut rest = path;
        let mut end = 0;
        for component in path.split(|octet| *octet == b'/') {
            end += component.len();
            match component {
                b"" | b"." => {}
                b".." if depth > 0 => depth -= 1,
                b".." => at = at.parent(),
                _ if at.row().is_in_tree => depth += 1,
                name => {
                    at = at.child(name)?;
                    rest = path.get(end..)?;
                }
            }
            end += 1; // the slash
        }
        at.row().is_in_tree.then_some(Place {
            folder: at.path(),
            rest,
        })
    }

    /// The folders in which a relative path would lead to the tree.
    pub(crate) fn starts(path: &[u8]) -> impl Iterator<Item = (Self, Place<'_>)> {
        let all = (0..FOLDERS.len()).map(Self);
        let on_the_way = all.filter(|folder| !folder.row().is_in_tree);
        on_the_way.filter_map(|folder| Some((folder, folder.walk(path)?)))
    }
}

/// Where an absolute path leads.
pub(crate) fn absolute(path: &[u8]) -> Option<Place<'_>> {
    Folder::ROOT.walk(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: &str) -> Option<(&'static str, &str)> {
        let place = absolute(path.as_bytes())?;
        Some((place.folder, std::str::from_utf8(place.rest).unwrap()))
    }

    #[test]
    fn paths_of_the_three_folders_lead_to_the_tree() {
        const IB: &str = "/sys/class/infiniband";
        for (path, folder, rest) in [
            (IB, IB, ""),
            ("/sys/class/infiniband/", IB, "/"),
            ("//sys/./class//infiniband/a/b", IB, "/a/b"),
            ("/sys/class/infiniband/a/../b", IB, "/a/../b"),
            ("/../sys/../dev/infiniband/x", "/dev/infiniband", "/x"),
            (
                "/sys/class/infiniband_verbs/uverbs0",
                "/sys/class/infiniband_verbs",
                "/uverbs0",
            ),
            (
                "/sys/class/infiniband/a/../../infiniband_verbs/b",
                "/sys/class/infiniband_verbs",
                "/b",
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
            "/sys/class/infiniband/..",
            "/sys/class/infiniband/../net",
            "/dev/null",
            "/home/sys/class/infiniband",
        ] {
            assert_eq!(to(path), None, "{path}");
        }
    }

    #[test]
    fn relative_paths_have_the_folders_in_which_they_would() {
        let starts = |path: &'static str| {
            let found = Folder::starts(path.as_bytes());
            found
                .map(|(from, place)| (from.path(), place.folder))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            starts("infiniband/a"),
            [
                ("/sys/class", "/sys/class/infiniband"),
                ("/dev", "/dev/infiniband")
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
