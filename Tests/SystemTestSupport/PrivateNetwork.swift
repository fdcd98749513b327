import Foundation
import TestSupport

/// A network namespace for one program: loopback, and one address that is not loopback. Nothing that is sent there leaves the namespace.
///
/// A small HTTP server in the namespace listens on both addresses and records what it is asked. Unix sockets connect
/// the test to the program.
final class PrivateNetwork: Sendable {
    /// One request that the server received.
    struct Visit: Sendable, Equatable, CustomStringConvertible {
        /// The address that was dialled.
        let address: String
        /// Such as `POST /login`.
        let line: String
        let hasToken: Bool
        /// Its `Host`.
        let host: String

        var description: String { "\(line) at \(address)\(hasToken ? " with a token" : "")" }
    }

    static let address = "10.98.76.54"
    /// In the range where metadata services are.
    static let linkLocalAddress = "169.254.76.54"
    /// Of loopback, if the network has it. It is valid in the zone `lo` only.
    static let zonedAddress = "fe80::76:54"
    /// The server's port at every address of the namespace.
    static let port = 9000

    /// Holds the sockets that reach into the namespace, too.
    let folder: TemporaryFolder
    private let server: String
    private let hasLoopbackV4: Bool
    private let hasZonedAddress: Bool

    /// - Parameters:
    ///   - hosts: entries of the hosts file, `localhost` among them if it is to be known.
    ///   - location: the `hostname` that the server names in an App Services location.
    ///   - server: the address that the server listens at; by default every IPv4 address of the namespace.
    ///   - hasLoopbackV4: the namespace has 127.0.0.1.
    ///   - hasZonedAddress: it has `zonedAddress`.
    init(
        hosts: [String], location: String = "", server: String = "0.0.0.0", hasLoopbackV4: Bool = true,
        hasZonedAddress: Bool = false
    ) throws {
        self.server = server
        self.hasLoopbackV4 = hasLoopbackV4
        self.hasZonedAddress = hasZonedAddress
        folder = try TemporaryFolder()
        try folder.write("nsswitch.conf", "hosts: files\n", mode: 0o644)
        try folder.write("hosts", hosts.map { $0 + "\n" }.joined(), mode: 0o644)
        try folder.write("server.py", Self.server)
        try folder.write("location", location)
        try folder.write("visits", "")
    }

    /// What to put before the program and its arguments. The server ends with the program.
    var launcher: [String] {
        let mounts = ["hosts", "nsswitch.conf"].map { "mount --bind \(folder.file($0)) /etc/\($0)" }
        let addresses = [Self.address, Self.linkLocalAddress].map { "ip address add \($0)/32 dev lo" }
        let removal = hasLoopbackV4 ? [] : ["ip address del 127.0.0.1/8 dev lo"]
        let zoned = hasZonedAddress ? ["ip address add \(Self.zonedAddress)/64 dev lo nodad"] : []
        let network = (["ip link set lo up"] + removal + addresses + zoned).joined(separator: " && ")
        let commands = ([network] + mounts).joined(separator: " && ")
        return [
            "/usr/bin/unshare", "-n", "-m", "/bin/sh", "-c",
            "\(commands) && exec /usr/bin/python3 -u \(folder.file("server.py")) \(folder.path) \(server) \(Self.port) \"$@\"",
            "sh",
        ]
    }

    /// All requests so far.
    func visits() throws -> [Visit] {
        try String(contentsOfFile: folder.file("visits"), encoding: .utf8).split(separator: "\n").map { line in
            let parts = line.split(separator: "|").map(String.init)
            return Visit(address: parts[0], line: parts[1], hasToken: parts[2] == "True", host: parts[3])
        }
    }

    /// Listens, then becomes the program; a child of it serves.
    private static let server = """
        import ctypes, os, signal, socket, sys
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        folder, host, port, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def answer(self):
                size = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(size)
                token = "Authorization" in self.headers or size > 0
                with open(folder + "/visits", "a") as file:
                    file.write(f"{self.connection.getsockname()[0]}|{self.command} {self.path}|{token}|{self.headers.get('Host')}\\n")
                body = b"{}"
                if self.path.endswith("/location"):
                    body = ('{"hostname":"%s"}' % open(folder + "/location").read()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            do_GET = do_POST = do_DELETE = answer
            def log_message(self, *arguments): pass
        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = Server((host, port), Handler)
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            for descriptor in (0, 1, 2): os.dup2(os.open("/dev/null", os.O_RDWR), descriptor)
            server.serve_forever()
        os.execv(command[0], command)
        """
}
