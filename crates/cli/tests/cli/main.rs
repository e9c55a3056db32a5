//! Runs the real binary on real directories.

#![forbid(unsafe_code)]

mod archives;
mod automation;
mod backup;
mod bad_input;
mod bed;
mod cache;
mod cluster;
mod config;
mod copy;
mod devices;
mod documents;
mod drill;
mod everyday;
mod find;
mod forget;
mod help;
mod hooks;
mod key_text;
mod listing;
mod migrate;
mod mishaps;
mod mount;
mod object_store;
mod objects;
mod offload;
mod openssl;
mod process;
mod prune;
mod repair;
mod restore;
mod rewrite;
mod s3_intruder;
mod scripting;
mod served;
mod sftp;
mod striped;
mod striped_killed;
mod striped_lost;
mod tag;
mod terminal;
