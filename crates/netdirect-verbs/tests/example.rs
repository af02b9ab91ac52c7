//! The example works, on softnd. This is not tested on Windows, whose sockets softnd cannot use yet. On RDMA devices it is run by hand.

#[allow(dead_code)]
#[path = "../examples/either_provider.rs"]
mod either_provider;

#[test]
#[cfg(not(windows))]
fn the_text_comes_back_into_the_sender_s_memory() {
    use std::sync::mpsc;
    use std::thread;

    let adapter = || softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let server = thread::spawn(move || {
        either_provider::serve(&adapter(), |address| sender.send(address).unwrap())
    });
    let address = receiver.recv().unwrap();
    let text = either_provider::send(&adapter(), address, "there and back");
    assert_eq!(text.unwrap(), "there and back");
    server.join().unwrap().unwrap();
}

/// The code on the guide's page is that of the example.
#[test]
fn the_guide_shows_the_code_of_the_example() {
    let page = include_str!("../pages/either-provider.md");
    let example = include_str!("../examples/either_provider.rs");
    let blocks = page.split("```rust,ignore\n").skip(1);
    let blocks: Vec<_> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert!(example.contains(block), "{block}");
    }
}
