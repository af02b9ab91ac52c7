mod events;
mod files;
mod ports;
