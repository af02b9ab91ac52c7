//! Connections between the two sides of a check.

use std::net::SocketAddr;
use std::sync::Arc;

use conform_report::Step;
use netdirect::{
    CompletionQueue, CompletionResult, Connector, Listener, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, ReadLimits, RemoteAddress, RequestType, Sge, Status,
};

use crate::bench::Bench;
use crate::side::Side;

/// The options of a check's connections.
#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    /// The near queue pair.
    pub near: QueuePairOptions,
    /// The far queue pair.
    pub far: QueuePairOptions,
    /// The read limits that both sides ask for.
    pub limits: ReadLimits,
    /// The depth of all completion queues.
    pub depth: u32,
    /// Whether the near side sends an empty message as soon as the connection is there. Some adapters do not let the far side
    /// send before it has received something, so a connection without this is for checks of just that.
    pub greeting: bool,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            near: QueuePairOptions::default(),
            far: QueuePairOptions::default(),
            limits: ReadLimits {
                inbound: 4,
                outbound: 4,
            },
            depth: 64,
            greeting: true,
        }
    }
}

/// A queue pair and its two completion queues.
#[derive(Clone, Debug)]
pub struct Queues {
    /// The queue pair.
    pub qp: Arc<dyn QueuePair>,
    /// Where the results of Receives go.
    pub receives: Arc<dyn CompletionQueue>,
    /// Where all other results go.
    pub initiator: Arc<dyn CompletionQueue>,
}

/// A listener that listens.
#[derive(Clone, Debug)]
pub struct Listening {
    /// The listener.
    pub listener: Arc<dyn Listener>,
    /// Its address.
    pub address: SocketAddr,
}

/// One end of a connection.
#[derive(Debug)]
pub struct LinkEnd<'a> {
    /// The side that it belongs to.
    pub side: &'a Side,
    /// The connector.
    pub connector: Arc<dyn Connector>,
    /// The queue pair and its completion queues.
    pub queues: Queues,
}

/// A connection between the two sides: the near side has connected, the far side has accepted.
#[derive(Debug)]
pub struct Link<'a> {
    /// The near end.
    pub near: LinkEnd<'a>,
    /// The far end.
    pub far: LinkEnd<'a>,
}

impl Side {
    /// A queue pair with its own two completion queues.
    ///
    /// # Errors
    ///
    /// The failure if a call is refused.
    pub fn queues(&self, depth: u32, options: QueuePairOptions) -> Step<Queues> {
        let receives = self.cq(depth)?;
        let initiator = self.cq(depth)?;
        let qp = self.qp(&receives, &initiator, options)?;
        Ok(Queues {
            qp,
            receives,
            initiator,
        })
    }

    /// A listener at a port of the provider's choice.
    ///
    /// # Errors
    ///
    /// The failure if a call is refused.
    pub fn listening(&self) -> Step<Listening> {
        let listener = self.listener()?;
        self.expect("bind the listener", listener.bind(self.address))?;
        self.expect("listen", listener.listen(0))?;
        let address = listener.get_local_address();
        let address = self.expect("get the listener's address", address)?;
        Ok(Listening { listener, address })
    }
}

impl Bench {
    /// A connection with the default options.
    ///
    /// # Errors
    ///
    /// The failure if a step does not succeed.
    pub fn link(&self) -> Step<Link<'_>> {
        self.link_with(LinkOptions::default())
    }

    /// A connection.
    ///
    /// # Errors
    ///
    /// The failure if a step does not succeed.
    pub fn link_with(&self, options: LinkOptions) -> Step<Link<'_>> {
        let near = self.near.queues(options.depth, options.near)?;
        let far = self.far.queues(options.depth, options.far)?;
        let link = self.join(near, far, options.limits)?;
        if options.greeting {
            link.greet()?;
        }
        Ok(link)
    }

    /// Connects two queue pairs.
    ///
    /// # Errors
    ///
    /// The failure if a step does not succeed.
    pub fn join(&self, near: Queues, far: Queues, limits: ReadLimits) -> Step<Link<'_>> {
        let listening = self.far.listening()?;
        let (connecting, accepting) = (self.near.connector()?, self.far.connector()?);
        let ReadLimits { inbound, outbound } = limits;
        let (arrived, accepted) = (Overlapped::new(), Overlapped::new());
        let (arrived, accepted) = (arrived.without_port(), accepted.without_port());
        let (answered, completed) = (Overlapped::new(), Overlapped::new());
        let (answered, completed) = (answered.without_port(), completed.without_port());

        let request = listening
            .listener
            .get_connection_request(&accepting, &arrived);
        let request = self.far.started("get a connection request", request)?;
        let connect = connecting.connect(
            &near.qp,
            listening.address,
            inbound,
            outbound,
            &[],
            &answered,
        );
        let connect = self.near.started("connect", connect)?;
        self.far.arrives(request, &arrived, &answered)?;
        let accept = accepting.accept(&far.qp, inbound, outbound, &[], &accepted);
        let accept = self.far.started("accept", accept)?;
        self.near
            .done("the end of Connect", Ok(connect), &answered)?;
        let complete = connecting.complete_connect(&completed);
        self.near
            .done("complete the connection", complete, &completed)?;
        self.far.done("the end of Accept", Ok(accept), &accepted)?;
        self.has_connected(&[&*connecting, &*accepting]);
        Ok(Link {
            near: LinkEnd {
                side: &self.near,
                connector: connecting,
                queues: near,
            },
            far: LinkEnd {
                side: &self.far,
                connector: accepting,
                queues: far,
            },
        })
    }
}

impl Link<'_> {
    /// The near side sends an empty message, which the far side receives. From then on the far side may send too.
    ///
    /// # Errors
    ///
    /// The failure if the message does not arrive.
    pub fn greet(&self) -> Step {
        self.far.receive(0, &[])?;
        self.near.send(0, &[], OpFlags::empty())?;
        self.near.succeeds(RequestType::Send)?;
        self.far.takes()?;
        Ok(())
    }
}

impl LinkEnd<'_> {
    /// Posts a Send.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Step {
        let posted = self.queues.qp.send(context, sges, flags);
        self.side.expect("post a Send", posted)
    }

    /// Posts a Receive.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn receive(&self, context: u64, sges: &[Sge]) -> Step {
        let posted = self.queues.qp.receive(context, sges);
        self.side.expect("post a Receive", posted)
    }

    /// Posts a Read.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn read(&self, context: u64, sges: &[Sge], remote: RemoteAddress) -> Step {
        let posted = self.queues.qp.read(context, sges, remote, OpFlags::empty());
        self.side.expect("post a Read", posted)
    }

    /// Posts a Write.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn write(&self, context: u64, sges: &[Sge], remote: RemoteAddress) -> Step {
        let posted = self
            .queues
            .qp
            .write(context, sges, remote, OpFlags::empty());
        self.side.expect("post a Write", posted)
    }

    /// The next result of a request other than a Receive, of any status.
    ///
    /// # Errors
    ///
    /// The failure if no result comes.
    pub fn initiated(&self, what: &str) -> Step<CompletionResult> {
        self.side.result(what, &self.queues.initiator)
    }

    /// The next result of a Receive, of any status.
    ///
    /// # Errors
    ///
    /// The failure if no result comes.
    pub fn received(&self, what: &str) -> Step<CompletionResult> {
        self.side.result(what, &self.queues.receives)
    }

    /// The next result of a request other than a Receive has to be a success of this kind.
    ///
    /// # Errors
    ///
    /// The failure if no result comes, or another one.
    pub fn succeeds(&self, kind: RequestType) -> Step<CompletionResult> {
        let what = format!("success of the {kind}");
        let result = self.initiated(&what)?;
        let got = (result.request_type, result.status);
        self.side.equal(what, got, (kind, Status::SUCCESS))?;
        Ok(result)
    }

    /// The next result of a Receive has to be a success.
    ///
    /// # Errors
    ///
    /// The failure if no result comes, or another one.
    pub fn takes(&self) -> Step<CompletionResult> {
        let result = self.received("success of the Receive")?;
        let got = (result.request_type, result.status);
        let wanted = (RequestType::Receive, Status::SUCCESS);
        self.side.equal("the result of the Receive", got, wanted)?;
        Ok(result)
    }

    /// Disconnects.
    ///
    /// # Errors
    ///
    /// The failure if the request fails.
    pub fn disconnect(&self) -> Step {
        let overlapped = Overlapped::new().without_port();
        let started = self.connector.disconnect(&overlapped);
        self.side.done("disconnect", started, &overlapped)
    }
}
