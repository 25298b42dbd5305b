//! A drop-in for a systemd unit that has its processes see the boosted file in the program's place.
//!
//! It lies where a reboot takes it away. What runs already keeps its mounts until it is started anew: there the guard
//! decides, and the boosted file becomes the stock program by a mount of the folder that the program is in.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Units of this boot.
const UNITS: &str = "/run/systemd/system";

/// Why there can be no drop-in here.
pub(crate) fn obstacle() -> Option<&'static str> {
    let systemd = Path::new(UNITS).is_dir();
    (!systemd).then_some("redirect = \"bind\" is done by systemd, which does not run here")
}

/// What a drop-in is about.
pub(crate) struct Bound<'a> {
    pub unit: &'a str,
    /// The program.
    pub path: &'a Path,
    /// The boosted file.
    pub file: &'a Path,
    /// Where the folder of the program is seen.
    pub stock_folder: &'a Path,
}

impl Bound<'_> {
    /// From the unit's next start on. An error leaves a part of it: it is to be taken back.
    pub(crate) fn set(&self) -> io::Result<()> {
        if let Some(why) = obstacle() {
            return Err(io::Error::other(why));
        }
        let file = self.drop_in();
        fs::create_dir_all(self.stock_folder)?;
        fs::create_dir_all(file.parent().unwrap_or(Path::new(UNITS)))?;
        fs::write(&file, self.text()?)?;
        reload()
    }

    /// The folder that the program is seen in stays: it is a mount point of what runs.
    pub(crate) fn unset(&self) -> io::Result<()> {
        let file = self.drop_in();
        match fs::remove_file(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        // Others may have drop-ins there.
        let _ = file.parent().map(fs::remove_dir);
        reload()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.drop_in().exists()
    }

    fn drop_in(&self) -> PathBuf {
        let folder = Path::new(UNITS).join(format!("{}.d", self.unit));
        let name = self.stock_folder.file_name().unwrap_or_default();
        folder.join(format!("dwell-boost-{}.conf", name.to_string_lossy()))
    }

    /// Without what is mounted within the folder, which is the boosted file. A unit starts, too, when that is gone.
    fn text(&self) -> io::Result<String> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        Ok(format!(
            "# by dwell boost, until it is taken back or the machine is started anew\n[Service]\n\
             BindReadOnlyPaths=-{}:{}:norbind\nBindReadOnlyPaths=-{}:{}\n",
            quoted(folder)?,
            quoted(self.stock_folder)?,
            quoted(self.file)?,
            quoted(self.path)?,
        ))
    }
}

/// A path as systemd reads it: nothing in it may be a separator, an escape or a specifier.
fn quoted(path: &Path) -> io::Result<&str> {
    let text = path.to_str().filter(|text| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@~".contains(c);
        text.chars().all(plain)
    });
    text.ok_or_else(|| {
        let shown = path.display();
        io::Error::other(format!(
            "{shown} has characters that a unit cannot name plainly"
        ))
    })
}

fn reload() -> io::Result<()> {
    let output = Command::new("systemctl").arg("daemon-reload").output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "systemctl daemon-reload: {}",
        said.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound<'a>(path: &'a str, file: &'a str) -> Bound<'a> {
        Bound {
            unit: "a.service",
            path: Path::new(path),
            file: Path::new(file),
            stock_folder: Path::new("/run/dwell/boost/stock/a"),
        }
    }

    #[test]
    fn paths_that_a_unit_would_read_otherwise_are_refused() {
        for path in ["/a b/c", "/a:b", "/a%b", "/a\\b", "/a\nb", "/\"a", "/ä"] {
            assert!(bound(path, "/x").text().is_err(), "{path:?}");
            assert!(bound("/x", path).text().is_err(), "{path:?}");
        }
    }

    /// By systemd itself: the whole unit with the drop-in is read without a complaint.
    #[test]
    fn systemd_takes_the_drop_in() {
        let folder = std::env::temp_dir().join(format!("dwell-bind-{}", std::process::id()));
        let drop_in = folder.join("a.service.d/x.conf");
        fs::create_dir_all(drop_in.parent().expect("a folder")).expect("made");
        let unit = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/true\n";
        fs::write(folder.join("a.service"), unit).expect("written");
        let verify = |text: &str| {
            fs::write(&drop_in, text).expect("written");
            let mut command = Command::new("systemd-analyze");
            let command = command.args(["verify", "a.service"]).current_dir(&folder);
            command.env("SYSTEMD_UNIT_PATH", &folder).output()
        };
        let text = bound("/usr/bin/a-1.2+3", "/var/lib/dwell/boost/bound/a").text();
        let text = text.expect("plain paths");
        if let Ok(output) = verify(&text) {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{said}");
            let broken = verify(&text.replace("=-/", "=-")).expect("it runs again");
            assert!(!broken.stderr.is_empty(), "it looks at the lines");
        } else {
            println!("systemd-analyze is not installed");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
