//! The examples `ping_pong` and `in_tokio` do what they say.

#[path = "../../examples/in_tokio.rs"]
#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
mod in_tokio;
#[path = "../../examples/ping_pong.rs"]
#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
mod ping_pong;

use crate::common::{block_on, everywhere};
use futures_util::future::join;
use netdirect_async::ListenerOptions;

#[test]
fn messages_go_to_and_fro() {
    everywhere(|network| {
        for rounds in [0, 1, 50] {
            let (here, there) = (network.open(1), network.open(2));
            let listener = network.listen(&there, ListenerOptions::default());
            let address = listener.local_address().unwrap();
            let (pinged, served) = block_on(join(
                ping_pong::ping(&here, address, rounds),
                ping_pong::serve_one(&there, &listener),
            ));
            assert_eq!((pinged, served), (Ok(()), Ok(rounds)));
        }
    });
}

#[test]
fn clients_and_a_server_share_a_program_of_tokio() {
    for threads in [1, 3] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build();
        let run = async {
            in_tokio::run(5, 10)
                .await
                .map_err(|error| error.to_string())
        };
        // 1 + 2 + … + 10 octets of each client.
        assert_eq!(runtime.unwrap().block_on(run), Ok(5 * 55));
    }
}
