//! Creates the targets in an arena that an attack must not reach.

use std::{
    fs::{self, Permissions},
    io,
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::{
        fs::{PermissionsExt, chown},
        net::{UnixDatagram, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use cmp_supervisor::evidence::DIRECTORY;

use crate::{helper, outcome, raw, setting::Setting, supervisor::Options, targets::Targets};

/// Content of all secrets.
const SECRET: &str = "TOPSECRET";

/// Servers of the test. They record that they were called and never answer.
pub(crate) struct Victims(Vec<(&'static str, Server)>);

/// One server of the test.
enum Server {
    Path(UnixListener),
    Datagrams(UnixDatagram),
    Port(TcpListener),
    Udp(UdpSocket),
}

impl Server {
    fn prepare(self) -> Self {
        let prepared = match &self {
            Self::Path(listener) => listener.set_nonblocking(true),
            Self::Datagrams(socket) => socket.set_nonblocking(true),
            Self::Port(listener) => listener.set_nonblocking(true),
            Self::Udp(socket) => socket.set_nonblocking(true),
        };
        prepared.expect("a server that does not wait");
        self
    }

    /// Takes the next connection or datagram. Fails if there is none.
    fn next(&self) -> io::Result<()> {
        match self {
            Self::Path(listener) => listener.accept().map(drop),
            Self::Datagrams(socket) => socket.recv(&mut [0]).map(drop),
            Self::Port(listener) => listener.accept().map(drop),
            Self::Udp(socket) => socket.recv(&mut [0]).map(drop),
        }
    }

    fn port(&self) -> u16 {
        let address = match self {
            Self::Port(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr(),
            Self::Path(_) | Self::Datagrams(_) => return 0,
        };
        address.expect("an address").port()
    }
}

impl Victims {
    fn new(directory: &Path) -> Self {
        let named = UnixListener::bind_addr(&raw::abstract_address(&name(directory)));
        let datagrams = directory.join("open/datagrams");
        let bound = UnixDatagram::bind(&datagrams).expect("a socket");
        fs::set_permissions(datagrams, Permissions::from_mode(0o666)).expect("a mode");
        let mut this = Self(Vec::new());
        this.listen("open socket", &directory.join("open/socket"), 0o777);
        this.listen("closed socket", &directory.join("secrets/socket"), 0o660);
        this.listen("hidden socket", &directory.join("hidden/socket"), 0o777);
        this.add("abstract socket", Server::Path(named.expect("a name")));
        this.add("datagrams", Server::Datagrams(bound));
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        this.add("UDP", Server::Udp(udp));
        this
    }

    fn add(&mut self, name: &'static str, server: Server) {
        self.0.push((name, server.prepare()));
    }

    /// Binds a socket with a path.
    pub(crate) fn listen(&mut self, name: &'static str, path: &Path, mode: u32) {
        let listener = UnixListener::bind(path).expect("a socket");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        self.add(name, Server::Path(listener));
    }

    /// Binds a port on all addresses, because a plugin can use more than loopback.
    pub(crate) fn serve(&mut self, name: &'static str, port: u16) -> u16 {
        let bound = TcpListener::bind(format!("[::]:{port}"));
        let bound = bound.or_else(|_| TcpListener::bind(("0.0.0.0", port))).expect("a port");
        let server = Server::Port(bound);
        let port = server.port();
        self.add(name, server);
        port
    }

    /// Names of the servers that were reached since the last call of this function.
    pub(crate) fn heard(&self) -> Vec<&'static str> {
        let called = |server: &Server| {
            let mut calls = 0;
            while server.next().is_ok() {
                calls += 1;
            }
            calls > 0
        };
        self.0.iter().filter(|(_, server)| called(server)).map(|(name, _)| *name).collect()
    }

    fn udp_port(&self) -> u16 {
        self.0.iter().find(|(name, _)| *name == "UDP").map_or(0, |(_, server)| server.port())
    }
}

/// Sets mode, owner and group, which are IDs inside the setting.
fn share(path: &Path, (mode, owner, group): (u32, u32, u32), setting: Setting) {
    let [owner, group] = [owner, group].map(|id| setting.outside(id));
    chown(path, Some(owner), Some(group)).expect("an owner");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// Gives directories and a socket to the group, as the kubelet does with the volumes of
/// a Pod with an `fsGroup`.
fn open_to_group(options: &Options) {
    let shared =
        [("sockets", 0o2777), ("work", 0o2777), ("hidden", 0o770), ("secrets/socket", 0o660)];
    for (name, mode) in shared {
        share(&options.directory.join(name), (mode, 0, options.run_as), options.setting);
    }
}

/// A bundle, with modes and owner as the supervisor gives them.
fn bundle(options: &Options) -> PathBuf {
    let directory = options.directory.join("work").join(DIRECTORY);
    let path = directory.join("000000000000001_victim.tar");
    fs::create_dir(&directory).expect("a directory");
    fs::write(&path, SECRET).expect("a bundle");
    let owner = options.setting.outside(options.run_as);
    for (path, mode) in [(&directory, 0o700), (&path, 0o600)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        chown(path, Some(owner), Some(owner)).expect("an owner");
    }
    path
}

fn name(directory: &Path) -> String {
    directory.join("abstract").display().to_string()
}

impl Targets {
    /// Creates the targets next to the supervisor's directories.
    pub(crate) fn place(options: &Options) -> (Self, Victims) {
        let directory = &options.directory;
        let at = |name: &str| directory.join(name);
        for (name, mode) in [("secrets", 0o755), ("open", 0o1777), ("hidden", 0o700)] {
            fs::create_dir(at(name)).expect("a directory");
            fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("a mode");
        }
        let is_grouped = options.setting == Setting::Grouped;
        let secret = |name: &str, mode: u32, owner: u32| {
            let path = at("secrets").join(name);
            fs::write(&path, SECRET).expect("a secret");
            // The group may do what the owner may.
            let (mode, group) =
                if is_grouped { (mode | 0o060, options.run_as) } else { (mode, owner) };
            share(&path, (mode, owner, group), options.setting);
            path
        };
        let bundle = bundle(options);
        let setuid = at("bin/setuid");
        fs::copy(at("bin/attack"), &setuid).expect("a copy");
        chown(&setuid, Some(options.setting.outside(0)), None).expect("an owner");
        fs::set_permissions(&setuid, Permissions::from_mode(0o4755)).expect("a mode");
        let mut victims = Victims::new(directory);
        let granted = secret("granted", 0o440, 0);
        share(&granted, (0o440, 0, options.run_as), options.setting);
        if is_grouped {
            open_to_group(options);
        }
        let targets = Self {
            granted,
            supervisor: 0,
            spawner: 0,
            victim: 0,
            victim_uid: 0,
            victim_workspace: PathBuf::new(),
            victim_socket: PathBuf::new(),
            victim_name: String::new(),
            root: at("work/_cmp_server"),
            bundle,
            root_secret: secret("root", 0o600, 0),
            own_secret: secret("own", 0o600, options.run_as),
            world_secret: secret("world", 0o644, 0),
            token: secret("token", 0o644, options.run_as),
            open_file: secret("open", 0o666, 0),
            plugins_dir: at("plugins.d"),
            definition: at("plugins.d/victim.yaml"),
            socket_dir: at("sockets"),
            plugin_socket: at("sockets/victim.sock"),
            open_dir: at("open"),
            open_socket: at("open/socket"),
            closed_socket: at("secrets/socket"),
            hidden_socket: at("hidden/socket"),
            datagram_socket: at("open/datagrams"),
            abstract_name: name(directory),
            metrics_port: 0,
            closed_port: victims.serve("closed port", 0),
            allowed_port: victims.serve("allowed port", 0),
            udp_port: victims.udp_port(),
            setuid,
        };
        (targets, victims)
    }

    /// Checks from outside the sandbox that every target exists: an attack on a
    /// missing target would always count as refused.
    pub(crate) fn check(&self) -> Result<(), String> {
        let holds = |path: &Path, text: &str| match fs::read_to_string(path) {
            Ok(content) if content.contains(text) => Ok(()),
            other => Err(format!("{}: {other:?} instead of {text}", path.display())),
        };
        holds(&self.victim_workspace.join("repo").join(helper::TREASURE), helper::TREASURE_TEXT)?;
        for secret in
            [&self.bundle, &self.root_secret, &self.own_secret, &self.world_secret, &self.token]
                .into_iter()
                .chain([&self.granted])
        {
            holds(secret, SECRET)?;
        }
        holds(&self.definition, "name: victim")?;
        for directory in [&self.root, &self.plugins_dir, &self.socket_dir, &self.open_dir] {
            fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        }
        let sockets = [
            &self.plugin_socket,
            &self.open_socket,
            &self.closed_socket,
            &self.hidden_socket,
            &self.victim_socket,
        ];
        for path in sockets {
            UnixStream::connect(path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        for name in [&self.abstract_name, &self.victim_name] {
            UnixStream::connect_addr(&raw::abstract_address(name))
                .map_err(|error| format!("@{name}: {error}"))?;
        }
        for port in [self.metrics_port, self.closed_port, self.allowed_port] {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .map_err(|error| format!("port {port}: {error}"))?;
        }
        for number in [self.supervisor, self.spawner, self.victim] {
            let environment = outcome::read(format!("/proc/{number}/environ"));
            if !environment.is_done() {
                return Err(format!("process {number}: {environment:?}"));
            }
        }
        Ok(())
    }

    /// Binds the victim's sockets for it if the tier does not let the victim do so.
    pub(crate) fn stand_in(&self, victims: &mut Victims) {
        if !self.victim_socket.exists() {
            victims.listen("victim's socket", &self.victim_socket, 0o777);
            chown(&self.victim_socket, Some(self.victim_uid), None).expect("an owner");
        }
        if let Ok(bound) = UnixListener::bind_addr(&raw::abstract_address(&self.victim_name)) {
            victims.add("victim's name", Server::Path(bound));
        }
    }
}
