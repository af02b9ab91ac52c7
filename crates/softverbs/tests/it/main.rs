//! The objects of verbs, in a simulated network and on sockets.

mod announced;
mod channels;
mod common;
mod connections;
mod counters;
mod data;
mod datagram_services;
mod datagrams;
mod datagrams_model;
mod ending;
mod faults;
mod numbers;
mod numbers_model;
mod peers_end;
mod queues;
mod slots;
mod synchronous;
mod threads;
mod unreliable;
mod writes;
