//! Lists of objects that exist only as long as others keep them.

use super::*;

#[test]
fn objects_that_exist_no_more_do_not_pile_up() {
    let mut list = Living::default();
    let add = |list: &mut Living<u32>| {
        let object = Arc::new(7);
        list.add(Arc::downgrade(&object));
        object
    };
    let stay: Vec<_> = (0..1000).map(|_| add(&mut list)).collect();
    for _ in 0..100_000 {
        drop(add(&mut list));
        assert!(list.0.len() <= 4 * stay.len());
    }
    let last = add(&mut list);
    assert_eq!(list.take().count(), stay.len() + 1);
    assert_eq!(list.take().count(), 0);
    drop(last);
}
