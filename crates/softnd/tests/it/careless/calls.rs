//! The calls of a run, by trait.

use std::sync::Arc;
use std::time::Duration;

use netdirect::{
    AdapterId, AtomicOp, Call, CompletionPort, CompletionQueue, CompletionResult, Connector, Fault,
    Immediate, MemoryRegion, MemoryWindow, NotifyType, OverlappedFile, OverlappedObject, QueuePair,
    Sge, SharedReceiveQueue, SharedReceiveQueueOptions, Status,
};

use super::run::Run;
use super::table;

/// One of the kept objects, or now and then the stranger.
macro_rules! any {
    ($run:ident, $kept:ident, $trait:path) => {{
        let kept = $run.$kept.clone();
        match $run.pick(&kept) {
            Some(object) if !$run.one_in(30) => object,
            _ => Arc::clone(&$run.stranger) as Arc<dyn $trait>,
        }
    }};
}

/// One of the kept objects; without any, the call is not made.
macro_rules! kept {
    ($run:ident, $kept:ident) => {{
        let kept = $run.$kept.clone();
        match $run.pick(&kept) {
            Some(object) => object,
            None => return,
        }
    }};
}

impl Run<'_> {
    /// One arbitrary call.
    pub(crate) fn act(&mut self) {
        match self.below(40) {
            0 => self.provider(),
            1..=7 => self.adapter(),
            8 => self.fault(),
            9 => self.file(),
            10..=12 => self.completion_queue(),
            13..=14 => self.shared_receive_queue(),
            15..=21 => self.post(),
            22..=23 => self.extension(),
            24..=26 => self.memory(),
            27..=31 => self.connector(),
            32..=34 => self.listener(),
            35 => self.overlapped(),
            36 => self.connect(),
            37 => self.release(),
            38 => {
                self.simulation.step();
            }
            _ => {
                let time = Duration::from_micros(self.below(300));
                self.simulation.pass(time);
            }
        }
        self.check_ends();
    }

    /// A whole connection between two adapters, unless the device was removed, with memory on both sides.
    pub(crate) fn connect(&mut self) {
        let (one, two) = (self.adapters[0].clone(), self.adapters[1].clone());
        let (Ok(here), Ok(there)) = (one.create_overlapped_file(), two.create_overlapped_file())
        else {
            return;
        };
        let mut ends = Vec::new();
        for (adapter, file) in [(&one, &here), (&two, &there)] {
            let affinity = self.affinity();
            let Ok(cq) = adapter.create_completion_queue(file, 32, affinity) else {
                return;
            };
            let options = self.queue_pair_options();
            let made = adapter.create_queue_pair(&cq, &cq, options);
            let (Ok(qp), Ok(connector)) = (made, adapter.create_connector(file)) else {
                return;
            };
            if let (Ok(region), Ok(window)) = (
                adapter.create_memory_region(file),
                adapter.create_memory_window(),
            ) {
                let buffer = self.buffers[3].clone();
                let rights = self.rights();
                self.start(&table::REGISTER, |request| {
                    region.register(&buffer, rights, request)
                });
                self.keep(|run| &mut run.regions, region);
                self.keep(|run| &mut run.windows, window);
            }
            self.keep(|run| &mut run.cqs, cq);
            self.keep(|run| &mut run.qps, qp.clone());
            self.keep(|run| &mut run.connectors, connector.clone());
            ends.push((qp, connector));
        }
        let [(asking, active), (answering, passive)] = &ends[..] else {
            return;
        };
        let Ok(listener) = two.create_listener(&there) else {
            return;
        };
        let bound = listener.bind(self.addresses[1]);
        let listening = bound.and_then(|()| listener.listen(0));
        let Ok(address) = listening.and_then(|()| listener.get_local_address()) else {
            return;
        };
        self.addresses.push(address);
        self.start(&table::GET_REQUEST, |request| {
            listener.get_connection_request(passive, request)
        });
        self.start(&table::CONNECT, |request| {
            active.connect(asking, address, 4, 4, b"", request)
        });
        self.let_happen();
        self.start(&table::ACCEPT, |request| {
            passive.accept(answering, 4, 4, b"", request)
        });
        self.let_happen();
        self.start(&table::COMPLETE, |request| active.complete_connect(request));
        self.let_happen();
        self.keep(|run| &mut run.listeners, listener);
        self.keep(|run| &mut run.files, here);
        self.keep(|run| &mut run.files, there);
    }

    fn let_happen(&self) {
        self.simulation.pass(Duration::from_millis(1));
    }

    fn provider(&mut self) {
        let provider = kept!(self, providers);
        match self.below(4) {
            0 => {
                let listed = provider.query_address_list();
                self.answer(&table::PROVIDER_LIST, listed);
            }
            1 => {
                let address = self.address();
                let resolved = provider.resolve_address(address);
                self.answer(&table::RESOLVE, resolved);
            }
            2 => {
                let known = provider.resolve_address(self.addresses[0]);
                let id = match known {
                    Ok(id) if !self.one_in(3) => id,
                    _ => AdapterId(self.below(u64::MAX)),
                };
                let opened = provider.open_adapter(id);
                self.answer(&table::OPEN, opened);
            }
            _ => {
                let fault = self.call_fault();
                if let Some(extensions) = provider.extensions() {
                    let injected = extensions.inject(fault);
                    self.answer(&table::PROVIDER_INJECT, injected);
                }
            }
        }
    }

    fn adapter(&mut self) {
        let adapter = kept!(self, adapters);
        let file = any!(self, files, OverlappedFile);
        match self.below(11) {
            0 => {
                let made = adapter.create_overlapped_file();
                if let Some(file) = self.answer(&table::FILE, made) {
                    self.keep(|run| &mut run.files, file);
                }
            }
            1 => {
                let queried = adapter.query();
                self.answer(&table::QUERY, queried);
                let queried = adapter.query_address_list();
                self.answer(&table::LIST, queried);
            }
            2 => {
                let (depth, affinity) = (self.depth(), self.affinity());
                let made = adapter.create_completion_queue(&file, depth, affinity);
                if let Some(cq) = self.answer(&table::CQ, made) {
                    self.keep(|run| &mut run.cqs, cq);
                }
            }
            3 => {
                let made = adapter.create_memory_region(&file);
                if let Some(region) = self.answer(&table::REGION, made) {
                    self.keep(|run| &mut run.regions, region);
                }
            }
            4 => {
                let made = adapter.create_memory_window();
                if let Some(window) = self.answer(&table::WINDOW, made) {
                    self.keep(|run| &mut run.windows, window);
                }
            }
            5 => {
                let options = SharedReceiveQueueOptions::default()
                    .queue_depth(self.depth())
                    .max_request_sge(self.entries())
                    .notify_threshold(self.depth())
                    .affinity(self.affinity());
                let made = adapter.create_shared_receive_queue(&file, options);
                if let Some(srq) = self.answer(&table::SRQ, made) {
                    self.keep(|run| &mut run.srqs, srq);
                }
            }
            6..=8 => self.create_queue_pair(),
            9 => {
                let made = adapter.create_connector(&file);
                if let Some(connector) = self.answer(&table::CONNECTOR, made) {
                    self.keep(|run| &mut run.connectors, connector);
                }
            }
            _ => {
                let made = adapter.create_listener(&file);
                if let Some(listener) = self.answer(&table::LISTENER, made) {
                    self.keep(|run| &mut run.listeners, listener);
                }
            }
        }
    }

    fn create_queue_pair(&mut self) {
        let adapter = kept!(self, adapters);
        let receives = any!(self, cqs, CompletionQueue);
        let initiator = if self.one_in(2) {
            receives.clone()
        } else {
            any!(self, cqs, CompletionQueue)
        };
        let options = self.queue_pair_options();
        let made = if self.one_in(2) {
            let made = adapter.create_queue_pair(&receives, &initiator, options);
            self.answer(&table::QP, made)
        } else {
            let srq = any!(self, srqs, SharedReceiveQueue);
            let made = adapter.create_queue_pair_with_srq(&receives, &initiator, &srq, options);
            self.answer(&table::QP_WITH_SRQ, made)
        };
        if let Some(qp) = made {
            self.keep(|run| &mut run.qps, qp);
        }
    }

    /// A fault that makes a later call fail, with a status that all pages of such calls list, or a fault that cannot happen.
    fn call_fault(&mut self) -> Fault {
        let nth = self.number(3);
        let call = self.pick(&Call::ALL).unwrap();
        let possible = [
            Call::ResolveAddress,
            Call::OpenAdapter,
            Call::CreateOverlappedFile,
        ];
        let status = match self.below(4) {
            0 => Status::SUCCESS,
            _ if possible.contains(&call) => Status::NO_MEMORY,
            _ => Status::INSUFFICIENT_RESOURCES,
        };
        Fault::Call { call, nth, status }
    }

    fn fault(&mut self) {
        let adapter = kept!(self, adapters);
        let Some(extensions) = adapter.extensions() else {
            return;
        };
        let _ = (extensions.capabilities(), extensions.counters());
        let fault = match self.below(12) {
            0 if self.one_in(6) => Fault::RemoveDevice,
            1 => Fault::BreakCompletionQueue {
                queue: any!(self, cqs, CompletionQueue),
                status: self
                    .pick(&[
                        Status::BUFFER_OVERFLOW,
                        Status::INTERNAL_ERROR,
                        Status::PENDING,
                    ])
                    .unwrap(),
            },
            2 => Fault::BreakSharedReceiveQueue {
                queue: any!(self, srqs, SharedReceiveQueue),
                status: self
                    .pick(&[Status::INTERNAL_ERROR, Status::SUCCESS])
                    .unwrap(),
            },
            3 => Fault::UnreachableHost {
                address: self.address().ip(),
            },
            _ => self.call_fault(),
        };
        let removes = matches!(fault, Fault::RemoveDevice);
        let injected = extensions.inject(fault);
        self.removed |= removes;
        self.answer(&table::INJECT, injected);
    }

    fn file(&mut self) {
        let file = kept!(self, files);
        let port = CompletionPort::new();
        let tied = file.associate(&port, self.below(9));
        self.answer(&table::ASSOCIATE, tied);
        file.progress();
    }

    fn completion_queue(&mut self) {
        let cq = kept!(self, cqs);
        match self.below(6) {
            0 => {
                let queried = cq.get_notify_affinity();
                // A simulated network has no processors.
                let queried = queried.or_else(|error| match error.status() {
                    Status::NOT_SUPPORTED => Ok(self.affinity()),
                    _ => Err(error),
                });
                self.answer(&table::CQ_AFFINITY, queried);
            }
            1 => {
                let depth = self.number(32);
                let resized = cq.resize(depth);
                self.answer(&table::CQ_RESIZE, resized);
            }
            2 => {
                let kinds = [NotifyType::Any, NotifyType::Solicited, NotifyType::Errors];
                let kind = self.pick(&kinds).unwrap();
                self.start(&table::CQ_NOTIFY, |request| cq.notify(kind, request));
            }
            _ => {
                let mut results =
                    vec![CompletionResult::default(); self.number(20).min(40) as usize];
                let count = cq.get_results(&mut results);
                assert!(count <= results.len(), "{count} of {}", results.len());
                self.answer(&table::GET_RESULTS, Ok(()));
                for result in &results[..count] {
                    assert!(table::RESULTS.contains(&result.status), "{result:?}");
                }
            }
        }
    }

    fn shared_receive_queue(&mut self) {
        let srq = kept!(self, srqs);
        match self.below(6) {
            0 => {
                let queried = srq.get_notify_affinity();
                let queried = queried.or_else(|error| match error.status() {
                    Status::NOT_SUPPORTED => Ok(self.affinity()),
                    _ => Err(error),
                });
                self.answer(&table::SRQ_AFFINITY, queried);
            }
            1 => {
                let (depth, threshold) = (self.number(32), self.number(32));
                let modified = srq.modify(depth, threshold);
                self.answer(&table::SRQ_MODIFY, modified);
            }
            2 => self.start(&table::SRQ_NOTIFY, |request| srq.notify(request)),
            _ => {
                let sges = self.sges();
                let posted = srq.receive(self.below(u64::MAX), &sges);
                self.answer(&table::SRQ_RECEIVE, posted);
            }
        }
    }

    fn post(&mut self) {
        let qp = kept!(self, qps);
        let context = self.below(u64::MAX);
        let (sges, remote, flags) = (self.sges(), self.remote(), self.flags());
        match self.below(12) {
            0 if self.one_in(4) => {
                let flushed = qp.flush();
                self.answer(&table::FLUSH, flushed);
            }
            0..=2 => {
                let posted = qp.send(context, &sges, flags);
                self.answer(&table::SEND, posted);
            }
            3..=5 => {
                let posted = qp.receive(context, &sges);
                self.answer(&table::RECEIVE, posted);
            }
            6 => {
                let posted = qp.read(context, &sges, remote, flags);
                self.answer(&table::READ, posted);
            }
            7 => {
                let posted = qp.write(context, &sges, remote, flags);
                self.answer(&table::WRITE, posted);
            }
            8 => {
                let data = self.data(64);
                let posted = qp.send_inline(context, &[&data, &[], &data[..0]], flags);
                self.answer(&table::SEND_INLINE, posted);
            }
            9 => {
                let data = self.data(64);
                let posted = qp.write_inline(context, &[&data], remote, flags);
                self.answer(&table::WRITE_INLINE, posted);
            }
            10 => {
                let region = any!(self, regions, MemoryRegion);
                let window = any!(self, windows, MemoryWindow);
                let (address, length) = self.place();
                let length = if self.one_in(10) {
                    u64::MAX
                } else {
                    length.into()
                };
                let posted = qp.bind(context, &region, &window, address, length, flags);
                self.answer(&table::BIND, posted);
            }
            _ => {
                let window = any!(self, windows, MemoryWindow);
                let posted = qp.invalidate(context, &window, flags);
                self.answer(&table::INVALIDATE, posted);
            }
        }
    }

    fn extension(&mut self) {
        let qp = kept!(self, qps);
        let Some(extensions) = qp.extensions() else {
            return;
        };
        let (context, flags, remote) = (self.below(u64::MAX), self.flags(), self.remote());
        if self.one_in(2) {
            let immediates = [Immediate::from([1; 4]), Immediate::from([2; 8])];
            let immediate = self.pick(&immediates).unwrap();
            let posted = extensions.send_immediate(context, immediate, flags);
            self.answer(&table::SEND_IMMEDIATE, posted);
        } else {
            let op = if self.one_in(2) {
                AtomicOp::FetchAdd {
                    add: u64::MAX,
                    mask: self.below(3),
                }
            } else {
                AtomicOp::CompareSwap {
                    compare: 0,
                    compare_mask: u64::MAX,
                    swap: 1,
                    swap_mask: self.below(u64::MAX),
                }
            };
            let sink = match self.sges().first() {
                Some(sge) if self.one_in(3) => *sge,
                Some(sge) => Sge { length: 8, ..*sge },
                None => return,
            };
            let posted = extensions.atomic(context, op, &sink, remote, flags);
            self.answer(&table::ATOMIC, posted);
        }
    }

    fn memory(&mut self) {
        let region = kept!(self, regions);
        match self.below(5) {
            0 | 1 => {
                let buffers = self.buffers.clone();
                let (buffer, rights) = (self.pick(&buffers).unwrap(), self.rights());
                self.start(&table::REGISTER, |request| {
                    region.register(&buffer, rights, request)
                });
            }
            2 => self.start(&table::DEREGISTER, |request| region.deregister(request)),
            _ => {
                let _ = (region.get_local_token(), region.get_remote_token());
                self.answer(&table::LOCAL_TOKEN, Ok(()));
                self.answer(&table::REMOTE_TOKEN, Ok(()));
                let window = kept!(self, windows);
                let _ = window.get_remote_token();
                self.answer(&table::WINDOW_TOKEN, Ok(()));
            }
        }
    }

    fn connector(&mut self) {
        let connector = kept!(self, connectors);
        let qp = any!(self, qps, QueuePair);
        let (inbound, outbound) = (self.number(128), self.number(128));
        let data = self.data(248);
        match self.below(12) {
            0 => {
                let bound = connector.bind(self.address());
                self.answer(&table::CONNECTOR_BIND, bound);
            }
            1..=3 => {
                let to = self.address();
                self.start(&table::CONNECT, |request| {
                    connector.connect(&qp, to, inbound, outbound, &data, request)
                });
            }
            4 => self.start(&table::COMPLETE, |request| {
                connector.complete_connect(request)
            }),
            5 | 6 => self.start(&table::ACCEPT, |request| {
                connector.accept(&qp, inbound, outbound, &data, request)
            }),
            7 => {
                let rejected = connector.reject(&data);
                self.answer(&table::REJECT, rejected);
            }
            8 => self.start(&table::NOTIFY_DISCONNECT, |request| {
                connector.notify_disconnect(request)
            }),
            9 if self.one_in(2) => {
                self.start(&table::DISCONNECT, |request| connector.disconnect(request));
            }
            _ => {
                let queried = connector.get_read_limits();
                self.answer(&table::LIMITS, queried);
                let queried = connector.get_private_data();
                self.answer(&table::PRIVATE_DATA, queried);
                let queried = connector.get_peer_address();
                self.answer(&table::PEER, queried);
                let queried = connector.get_local_address();
                if let Some(local) = self.answer(&table::CONNECTOR_LOCAL, queried) {
                    self.remember(local);
                }
            }
        }
    }

    fn remember(&mut self, address: std::net::SocketAddr) {
        if self.addresses.len() < 30 {
            self.addresses.push(address);
        }
    }

    fn listener(&mut self) {
        let listener = kept!(self, listeners);
        match self.below(7) {
            0 => {
                let bound = listener.bind(self.address());
                self.answer(&table::LISTENER_BIND, bound);
            }
            1 => {
                let backlog = self.number(3);
                let listening = listener.listen(backlog);
                self.answer(&table::LISTEN, listening);
            }
            2 => {
                let queried = listener.get_local_address();
                if let Some(address) = self.answer(&table::LISTENER_LOCAL, queried) {
                    self.remember(address);
                }
            }
            3 => {
                let connector = any!(self, connectors, Connector);
                let withdrawn = listener.withdraw(&connector);
                self.answer(&table::WITHDRAW, withdrawn);
            }
            _ => {
                let connector = any!(self, connectors, Connector);
                self.start(&table::GET_REQUEST, |request| {
                    listener.get_connection_request(&connector, request)
                });
            }
        }
    }

    /// Cancels requests of an object, or asks for the status of any request.
    fn overlapped(&mut self) {
        let mut objects: Vec<Arc<dyn OverlappedObject>> = Vec::new();
        objects.extend(self.cqs.iter().map(|object| Arc::clone(object) as _));
        objects.extend(self.srqs.iter().map(|object| Arc::clone(object) as _));
        objects.extend(self.regions.iter().map(|object| Arc::clone(object) as _));
        objects.extend(self.connectors.iter().map(|object| Arc::clone(object) as _));
        objects.extend(self.listeners.iter().map(|object| Arc::clone(object) as _));
        let Some(object) = self.pick(&objects) else {
            return;
        };
        if self.one_in(2) {
            let cancelled = object.cancel_overlapped_requests();
            self.answer(&table::CANCEL, cancelled);
        }
        let Some(request) = self.a_request() else {
            return;
        };
        // A wait ends even if no event in the simulation can end it.
        let wait = self.one_in(4);
        let status = object.get_overlapped_result(&request, wait);
        let allowed = [request.status(), Status::POSSIBLE_DEADLOCK];
        assert!(allowed.contains(&status), "{status} of {allowed:?}");
        assert!(!wait || status != Status::PENDING, "a wait for {status}");
        self.answer(&table::RESULT, Ok(()));
    }

    /// Releases an object.
    fn release(&mut self) {
        let kind = self.below(8);
        let at = self.below(10);
        let at = |length: usize| usize::try_from(at).unwrap() % length.max(1);
        macro_rules! release {
            ($kept:ident) => {
                if !self.$kept.is_empty() {
                    let at = at(self.$kept.len());
                    drop(self.$kept.swap_remove(at));
                }
            };
        }
        match kind {
            0 => release!(files),
            1 => release!(cqs),
            2 => release!(srqs),
            3 => release!(qps),
            4 => release!(regions),
            5 => release!(windows),
            6 => release!(connectors),
            _ => release!(listeners),
        }
    }
}
