//! `gloveport env`.

use gloveport::backend::BackendError;
use gloveport_backends::docker;

use crate::Host;
use crate::args::{EnvArgs, EnvCommand, Global};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::remote;
use crate::terminal::{self, one_line};

/// Lists or removes containers, whichever process made them. The other backends keep nothing beyond the process that uses it.
pub(crate) fn run(args: &EnvArgs, _: &Global, host: &Host) -> Result<Exit, Complaint> {
    let endpoint = remote::endpoint(host);
    let runtime = remote::runtime()?;
    let done = runtime.block_on(async {
        match &args.command {
            EnvCommand::List => Ok(table(&docker::list(&endpoint).await?)),
            EnvCommand::Stop { task } => Ok(removed(docker::prune(&endpoint, Some(task)).await?)),
            EnvCommand::Prune => Ok(removed(docker::prune(&endpoint, None).await?)),
        }
    });
    done.map(|text| terminal::print(&text)).map_err(|error: BackendError| remote::complaint(&error))
}

fn removed(count: usize) -> String {
    match count {
        1 => "removed 1 container\n".to_owned(),
        count => format!("removed {count} containers\n"),
    }
}

fn table(listed: &[docker::Listed]) -> String {
    if listed.is_empty() {
        return "no containers\n".to_owned();
    }
    let mut text = format!("{:<28} {:<20} {:<14} {}\n", "CONTAINER", "TASK", "USED BY", "STATUS");
    for one in listed {
        let user = match one.process() {
            Some(pid) if one.is_abandoned() => format!("ended ({pid})"),
            Some(pid) => format!("process {pid}"),
            None => "unknown".to_owned(),
        };
        text.push_str(&format!(
            "{:<28} {:<20} {user:<14} {}\n",
            one_line(&one.name),
            one_line(&one.task),
            one_line(&one.status)
        ));
    }
    text
}
