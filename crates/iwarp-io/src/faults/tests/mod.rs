mod datagrams;
mod run;
mod script;
mod stream;
mod text;
