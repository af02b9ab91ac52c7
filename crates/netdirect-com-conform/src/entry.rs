//! The entry points of a library.

use std::thread;

use conform_report::{Pass, Step, Stop, Verdict, ensure};
use netdirect::Status;
use netdirect_com::abi::IID_ND2_PROVIDER;
use netdirect_conform::Check;

use crate::client::Client;
use crate::common::{check, status};
use crate::identity::asked;

pub(crate) const CHECKS: &[Check] = &[
    check(
        "DLL-001.exported",
        "looks for DllGetClassObject among the library's names",
        |unopened| exported(&Client::new(unopened)?, "DllGetClassObject"),
    ),
    check(
        "DLL-002.exported",
        "looks for DllCanUnloadNow among the library's names",
        |unopened| exported(&Client::new(unopened)?, "DllCanUnloadNow"),
    ),
    check(
        "DLL-003.provider",
        "gets IND2Provider from DllGetClassObject, and asks the object whether it is the provider itself",
        |unopened| itself(&Client::new(unopened)?),
    ),
    check(
        "DLL-004.threads",
        "calls DllGetClassObject in four threads, several times each, and uses each provider",
        |unopened| threads(&Client::new(unopened)?),
    ),
    check(
        "DLL-005.provider",
        "asks DllCanUnloadNow while a provider is alive",
        |unopened| while_provider(&Client::new(unopened)?),
    ),
    check(
        "DLL-006.adapter",
        "asks DllCanUnloadNow while an adapter is open whose provider was released",
        |unopened| while_adapter(&Client::new(unopened)?),
    ),
];

fn exported(client: &Client, name: &str) -> Verdict {
    client.step(format!("look for {name}"));
    ensure(
        client.library().exports(name),
        format!("{name} among the names that the library exports"),
        "no such name",
    )?;
    Ok(Pass::Right)
}

fn itself(client: &Client) -> Verdict {
    let provider = client.provider()?;
    client.step("QueryInterface for IND2Provider");
    let (returned, found) = asked(&provider, IID_ND2_PROVIDER);
    status("QueryInterface for IND2Provider", Status::SUCCESS, returned)?;
    let found =
        client.made::<netdirect_com::abi::ProviderTable>("QueryInterface", returned, found)?;
    ensure(
        found.this() == provider.this(),
        "the object of DllGetClassObject to be its own IND2Provider",
        "another object",
    )?;
    client.adapter_id(&found)?;
    Ok(Pass::Right)
}

fn threads(client: &Client) -> Verdict {
    let several = || -> Step {
        // All of them are alive at the same time.
        let providers: Vec<_> = (0..4).map(|_| client.provider()).collect::<Step<_>>()?;
        for provider in &providers {
            client.adapter_id(provider)?;
        }
        Ok(())
    };
    let results: Vec<Step> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(several)).collect();
        let broke = |_| Err(Stop::Broken("a thread of the check panicked".to_owned()));
        let ends = threads.into_iter();
        ends.map(|thread| thread.join().unwrap_or_else(broke))
            .collect()
    });
    results.into_iter().collect::<Step>()?;
    Ok(Pass::Right)
}

/// Checks that the library reports that it is in use.
fn in_use(client: &Client, when: &str) -> Step {
    client.step(format!("DllCanUnloadNow {when}"));
    let returned = client.library().can_unload_now();
    ensure(
        returned != Status::SUCCESS,
        format!("something else than S_OK from DllCanUnloadNow {when}"),
        "S_OK",
    )
}

fn while_provider(client: &Client) -> Verdict {
    let first = client.provider()?;
    in_use(client, "with a provider")?;
    let second = client.provider()?;
    drop(first);
    in_use(client, "with the second of two providers")?;
    drop(second);
    Ok(Pass::Right)
}

fn while_adapter(client: &Client) -> Verdict {
    let provider = client.provider()?;
    let adapter = client.adapter(&provider)?;
    drop(provider);
    in_use(client, "with an adapter whose provider was released")?;
    drop(adapter);
    Ok(Pass::Right)
}
