//! Several threads on the same objects, over sockets.

use std::collections::HashSet;
use std::sync::Mutex;

use softverbs::{
    CmEventKind, CmId, SendData, SendOperation, SendRequest, WcStatus, WorkCompletion,
};

use crate::common::{End, Pair, parameters};

/// As many messages go from one end to the other; as many threads take their completions out of one queue.
const MESSAGES: u64 = 20_000;
const THREADS: usize = 4;

fn post_receive(end: &End, wr_id: u64) {
    end.qp.post_receive(wr_id, &[end.sge(0, 64)]).unwrap();
}

#[test]
fn four_threads_take_each_completion_of_a_queue_once() {
    let pair = Pair::on_sockets();
    let (client, server) = pair.connect();
    for wr_id in 0..32 {
        post_receive(&server, wr_id);
    }
    let (client, server) = (&client, &server);
    let received = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let is_done = || received.lock().unwrap().len() as u64 == MESSAGES;
                while !is_done() {
                    let mut completions = [WorkCompletion::default(); 4];
                    let taken = server.cq.poll(&mut completions);
                    for completion in &completions[..taken] {
                        assert_eq!(completion.status, WcStatus::Success);
                        let mut received = received.lock().unwrap();
                        assert!(
                            received.insert(completion.wr_id),
                            "{completion:?} came twice"
                        );
                        if completion.wr_id + 32 < MESSAGES {
                            post_receive(server, completion.wr_id + 32);
                        }
                    }
                }
            });
        }
        let mut outstanding = 0;
        for wr_id in 0..MESSAGES {
            let request = SendRequest {
                wr_id,
                operation: SendOperation::Send,
                data: SendData::Sges(&[client.sge(0, 8)]),
                signaled: wr_id % 8 == 7,
                solicited: false,
                fence: false,
                to: None,
            };
            outstanding += 1;
            client.qp.post_send(&request).unwrap();
            while outstanding > 16 {
                let taken = client.cq.poll(&mut [WorkCompletion::default()]);
                outstanding -= 8 * taken;
            }
        }
    });
    assert_eq!(received.lock().unwrap().len() as u64, MESSAGES);
}

#[test]
fn connections_of_many_threads_stand_once_each() {
    let pair = Pair::on_sockets();
    let (listener, address) = pair.server.listen();
    let (client, server) = (&pair.client, &pair.server);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..8 {
                    // Each thread has its own channel.
                    let channel = softverbs::EventChannel::create(&client.process).unwrap();
                    let id = CmId::create(&channel).unwrap();
                    let expect = |kind| {
                        let event = channel.get_event().unwrap();
                        assert_eq!(event.kind(), kind, "{event:?}");
                        event.acknowledge();
                    };
                    id.resolve_addr(None, address).unwrap();
                    expect(CmEventKind::AddrResolved);
                    id.resolve_route().unwrap();
                    expect(CmEventKind::RouteResolved);
                    let end = End::new(client, id.clone(), None);
                    id.connect(&parameters(b"")).unwrap();
                    expect(CmEventKind::Established);
                    end.id.disconnect().unwrap();
                    expect(CmEventKind::Disconnected);
                    id.destroy().unwrap();
                }
            });
        }
        let (mut established, mut ended) = (0, 0);
        let mut ends = Vec::new();
        while ended < THREADS * 8 {
            let event = server.channel.get_event().unwrap();
            match event.kind() {
                CmEventKind::ConnectRequest => {
                    let end = End::new(server, event.id().clone(), None);
                    end.id.accept(&parameters(b"")).unwrap();
                    ends.push(end);
                }
                CmEventKind::Established => established += 1,
                CmEventKind::Disconnected => {
                    ended += 1;
                    event.id().disconnect().unwrap();
                }
                CmEventKind::TimewaitExit => {}
                other => panic!("{other:?}: {event:?}"),
            }
            event.acknowledge();
        }
        assert_eq!((established, ends.len()), (THREADS * 8, THREADS * 8));
    });
    listener.destroy().unwrap();
}
