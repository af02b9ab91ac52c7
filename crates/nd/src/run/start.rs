//! The start of a program with the libraries in front of it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use softnd::user_files;
use softverbs::faults::{self, Plan};
use softverbs::{CongestionControl, DeviceKind, Process, ProcessOptions, choose_congestion};

use tracing_subscriber::filter::Targets;

use super::args::{Presents, ProgramArgs};
use super::{libraries, private_folder, program, runtimes, tree, ucx, udp};
use crate::errors::Failure;
use crate::log::{LogFormat, LogOptions};
use crate::provider;

/// Executes the program, with this log of the libraries. Returns only if that fails.
pub(crate) fn run(args: &ProgramArgs, log: LogOptions) -> Result<(), Failure> {
    let (name, arguments) = args.command.split_first().expect("clap asks for a program");
    let program = program::find(name)?;
    program::check(&program)?;
    let congestion = args.congestion.as_deref().unwrap_or_default();
    choose_congestion(CongestionControl::from_name(congestion), args.udp).map_err(|error| {
        Failure::new(
            format!("cannot start {}: {error}", name.display()),
            "choose one of these with --congestion, or leave out the option and the variable",
        )
    })?;
    let devices = devices(args)?;
    let captures = folder(args.capture.as_deref(), "captures", "--capture")?;
    let counters = folder(args.counters.as_deref(), "counters", "--counters")?;
    args.capture_room
        .options()
        .check()
        .map_err(|error| Failure::new(error.to_string(), "raise --capture-limit"))?;
    let plan = args
        .fault
        .as_deref()
        .map(|plan| fault_plan(plan, args.udp || args.present == Presents::Roce))
        .transpose()?;
    let log = log_filter(log)?;
    let udp = udp::variables(args, env::var_os(udp::UDP).is_some())?;
    let private = private_folder::make()?;
    let names = libraries::find()?.versioned_names(&private)?;
    let tree = tree::make(devices.devices(), &private)?;
    let mut command = Command::new(&program);
    command.args(arguments);
    for (name, value) in args.environment() {
        command.env(name, value);
    }
    for (name, value) in ucx::ENVIRONMENT {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    if let Some((filter, form)) = log {
        command.env("SOFTND_VERBS_LOG", filter);
        command.env("SOFTND_VERBS_LOG_FORMAT", form);
    }
    if let Some(plan) = plan {
        command.env("SOFTND_VERBS_FAULTS", plan);
    }
    udp.set.into_iter().for_each(|(name, value)| {
        command.env(name, value);
    });
    udp.removed.into_iter().for_each(|name| {
        command.env_remove(name);
    });
    if let Some(folder) = captures {
        command.env("SOFTND_VERBS_CAPTURE", folder);
    }
    if let Some(folder) = counters {
        command.env("SOFTND_VERBS_COUNTERS", folder);
    }
    command.env("SOFTND_VERBS_PATHS", tree);
    command.env(
        "LD_LIBRARY_PATH",
        in_front("LD_LIBRARY_PATH", [names.folder()]),
    );
    let mut preloaded = preloaded_by_user(&private);
    let runtime = runtimes::in_front_of(&preloaded, &program);
    preloaded.extend(names.paths().into_iter().map(PathBuf::into_os_string));
    command.env("LD_PRELOAD", list(runtime, &preloaded));
    Err(program::execute(command, &program))
}

/// A list of paths in the environment, behind new ones.
fn in_front<P: AsRef<OsStr>>(variable: &str, paths: impl IntoIterator<Item = P>) -> OsString {
    let old = env::var_os(variable).filter(|old| !old.is_empty());
    let paths = paths.into_iter().map(|path| path.as_ref().to_owned());
    let all: Vec<OsString> = paths.chain(old).collect();
    all.join(OsStr::new(":"))
}

/// What the user preloads. Our libraries come behind it, because some libraries have to be the first one. Those of a run around this one are
/// left out.
fn preloaded_by_user(private: &Path) -> Vec<OsString> {
    let list = env::var_os("LD_PRELOAD").unwrap_or_default();
    let is_separator = |octet: &u8| matches!(octet, b':' | b' ');
    let names = list.as_bytes().split(is_separator);
    let names = names.filter(|name| !name.is_empty()).map(OsStr::from_bytes);
    let users = names.filter(|name| !Path::new(name).starts_with(private));
    users.map(OsStr::to_owned).collect()
}

/// A list of libraries to preload. An empty name behind a runtime tells it from what the user preloads: `libnd_paths.so` takes it away from
/// programs that do not need it.
fn list(runtime: Option<OsString>, libraries: &[OsString]) -> OsString {
    let runtime = runtime.into_iter().flat_map(|name| [name, OsString::new()]);
    let all: Vec<OsString> = runtime.chain(libraries.iter().cloned()).collect();
    all.join(OsStr::new(":"))
}

/// Makes a folder of an option, unless it is there. Others can foretell the names of files in it, and must not be able to make them.
fn folder(folder: Option<&Path>, what: &str, option: &str) -> Result<Option<PathBuf>, Failure> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let whole = user_files::folder::exclusive(folder).and_then(|folder| {
        user_files::folder::try_to_write(&folder)?;
        Ok(folder)
    });
    whole.map(Some).map_err(|error| {
        Failure::io(format_args!("put {what} into {}", folder.display()), &error).advise(format!(
            "name a folder for {option} that only you can write to, or one that is not there yet"
        ))
    })
}

/// The filter and the form of the libraries' log. As for `nd` itself, `RUST_LOG` wins over `-v`. Without `-v` there is no log, because the
/// program may be one that reads `RUST_LOG`.
fn log_filter(log: LogOptions) -> Result<Option<(String, &'static str)>, Failure> {
    let Some(level) = log.level() else {
        return Ok(None);
    };
    let filter = match env::var("RUST_LOG") {
        Ok(filter) if !filter.is_empty() => filter,
        _ => level.to_owned(),
    };
    filter.parse::<Targets>().map_err(|error| {
        Failure::new(
            format!("RUST_LOG is no filter of the libraries' log: {error}"),
            "write for example softnd=debug, or unset the variable",
        )
    })?;
    let form = match log.log_format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    Ok(Some((filter, form)))
}

/// The text of the fault plan, which was read and checked.
fn fault_plan(given: &str, has_datagrams: bool) -> Result<String, Failure> {
    let plan = Plan::load(given).map_err(|error| provider::wrong_plan(&error))?;
    faults::check(&plan, has_datagrams).map_err(|error| provider::wrong_plan(&error))?;
    Ok(plan.to_string())
}

/// The devices that the program will find. Says what is wrong with the interfaces before the program starts, which would only find no
/// device.
fn devices(args: &ProgramArgs) -> Result<Arc<Process>, Failure> {
    let mut options = ProcessOptions::default();
    // It was checked, and no connection is made here.
    options.congestion = CongestionControl::System;
    options.names.clone_from(&args.names);
    options.interface.clone_from(&args.interface);
    if args.present == Presents::Iwarp {
        options.kind = DeviceKind::Iwarp;
    }
    let process = Process::of_system(options).map_err(|error| {
        Failure::new(
            error.to_string(),
            "name another interface with --interface, or leave the option out",
        )
    })?;
    if process.devices().is_empty() {
        return Err(Failure::new(
            "no network interface has an address",
            "set one up: `ip link set lo up` is enough for programs on one machine",
        ));
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_in_front_of_an_empty_name() {
        let libraries = ["/a", "/b"].map(OsString::from);
        assert_eq!(list(None, &libraries), "/a:/b");
        let runtime = Some(OsString::from("libasan.so.8"));
        assert_eq!(list(runtime, &libraries), "libasan.so.8::/a:/b");
    }

    #[test]
    fn paths_stand_in_front_of_what_is_there() {
        let paths = ["/a", "/b"].map(OsStr::new);
        assert_eq!(in_front("A_VARIABLE_THAT_IS_NOT_SET", paths), "/a:/b");
        let old = env::var("PATH").unwrap();
        assert_eq!(
            in_front("PATH", paths),
            OsString::from(format!("/a:/b:{old}"))
        );
    }
}
