mod events;
mod foreign;
mod ports;
mod requests;
