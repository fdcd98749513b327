import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Two identities, each with a client certificate of its own, before one identity service that demands one.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs Python"))
struct IdentityTLSTests {
    private struct Bench {
        /// Lanyard's. The identity service in Python has the machine's.
        let clock: TestClock
        let folder: TemporaryFolder
        let service: ServerProcess
        let yaml: String

        /// - Parameter users: each has an identity and files of its name.
        init(_ users: [String] = ["alice", "bob"]) async throws {
            clock = try TestClock()
            folder = try TemporaryFolder()
            let leaf = IdentityTLSTests.authority.issue("IP:127.0.0.1")
            try folder.write("leaf.pem", leaf.certificate)
            try folder.write("leaf.key", leaf.key)
            try folder.write("ca.pem", IdentityTLSTests.authority.pem)
            let (service, endpoint) = try await PythonProcess.serve([
                "-c", Self.script, folder.path, IdentityTLSTests.token,
            ])
            self.service = service
            var (identities, configured) = ("", "")
            for user in users {
                let own = IdentityTLSTests.authority.issue(commonName: user, purpose: "clientAuth")
                try folder.write("\(user).pem", own.certificate)
                try folder.write("\(user).key", own.key)
                identities += """
                      \(user): {app_services: {app_id: demo-abcde, base_url: "https://\(endpoint)"}, tls: {ca_file: \
                    \(folder.file("ca.pem")), certificate_file: \(folder.file("\(user).pem")), key_file: \
                    \(folder.file("\(user).key"))}}

                    """
                configured += "  \(user): {identity: \(user), login: {anonymous: {}}}\n"
            }
            yaml = """
                identities:
                \(identities)users:
                \(configured)routes: [{upstream: "http://127.0.0.1:9"}]

                """
        }

        /// Calls of this kind (`login`, `session`) with a certificate of this name.
        func count(_ kind: String, _ name: String) -> Int {
            service.output.split(separator: "\n").count { $0 == "\(kind) \(name)" }
        }

        func replace(_ file: String, by text: String) throws {
            try folder.write(file + ".new", text)
            guard rename(folder.file(file + ".new"), folder.file(file)) == 0 else {
                throw TestFailure("errno \(errno)")
            }
        }

        /// Lanyard, whose time stands from now on.
        func start(_ launcher: [String] = []) async throws -> LanyardProcess {
            let lanyard = try await LanyardProcess.start(yaml, under: clock, launcher: launcher)
            clock.stop()
            return lanyard
        }

        /// Passes the time in which changed files are found and used.
        func passFileDelay(of lanyard: LanyardProcess) async throws {
            try await clock.pass(LanyardProcess.fileDelay, whenSettled: lanyard.process, service)
        }

        /// Passes time until each has been refreshed so often.
        func refresh(_ names: [String], times: Int, by lanyard: LanyardProcess) async throws {
            let before = names.map { count("session", $0) }
            try await clock.pass(until: "\(names) are refreshed", atMost: .seconds(60)) {
                try await settled(lanyard.process, service)
                return zip(names, before).allSatisfy { count("session", $0) >= $1 + times }
            }
        }

        private static let script = """
            import json, socket, ssl, sys, threading
            folder, token = sys.argv[1:3]
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
            context.load_verify_locations(folder + "/ca.pem")
            context.verify_mode = ssl.CERT_REQUIRED

            def serve(raw):
                try:
                    tls = context.wrap_socket(raw, server_side=True)
                    file = tls.makefile("rb")
                    kind = file.readline().decode().split(" ")[1].split("/")[-1]
                    length = 0
                    while (field := file.readline().decode().strip()):
                        name, value = field.split(":", 1)
                        if name.lower() == "content-length": length = int(value)
                    file.read(length)
                    name = tls.getpeercert()["subject"][0][0][1]
                    print(kind, name, flush=True)
                    body = {"access_token": token, "expires_in": 4}
                    if kind == "location": body = {"hostname": ""}
                    if kind == "login": body |= {"refresh_token": token, "user_id": name}
                    text = json.dumps(body).encode()
                    tls.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
                        + b"Content-Length: %d\\r\\n\\r\\n" % len(text) + text)
                    file.close()
                    tls.unwrap().close()
                except (OSError, ValueError) as error: print("failed", error, flush=True)

            listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
            print("port", listener.getsockname()[1], flush=True)
            while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
            """
    }

    private static let authority = TestAuthority("Identity")
    private static let token = Tokens.access()

    @Test("a key that does not fit: reported by reload and watch, and the old pair stays; a whole new pair is used")
    func changes() async throws {
        let bench = try await Bench(["alice"])
        let lanyard = try await bench.start()
        try await bench.refresh(["alice"], times: 1, by: lanyard)
        let next = Self.authority.issue(commonName: "alice-next", purpose: "clientAuth")
        try bench.replace("alice.key", by: next.key)
        lanyard.process.signal(SIGHUP)
        try await lanyard.process.event("reload.failed") {
            $0["reason"].string?.contains("identities.alice.tls.key_file: \(bench.folder.file("alice.key")) has a key")
                == true
        }
        try await bench.passFileDelay(of: lanyard)
        try await lanyard.process.event("identity.tls.failed") {
            $0["identity"].string == "alice" && $0["reason"].string?.contains("does not belong") == true
        }
        try await bench.refresh(["alice"], times: 2, by: lanyard)
        try bench.replace("alice.pem", by: next.certificate)
        try await bench.passFileDelay(of: lanyard)
        try await lanyard.process.event("identity.tls.reloaded")
        try await bench.refresh(["alice-next"], times: 1, by: lanyard)
        // By a reload, in the same process and without another login.
        let last = Self.authority.issue(commonName: "alice-last", purpose: "clientAuth")
        try bench.replace("alice.pem", by: last.certificate)
        try bench.replace("alice.key", by: last.key)
        lanyard.process.signal(SIGHUP)
        try await lanyard.process.event("reload.applied")
        try await bench.refresh(["alice-last"], times: 1, by: lanyard)
        #expect(["alice", "alice-next", "alice-last"].map { bench.count("login", $0) } == [1, 0, 0])
        bench.clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("a pair that does not fit prevents the start with exit 78")
    func start() async throws {
        let bench = try await Bench(["alice"])
        try bench.folder.write("alice.key", Self.authority.issue().key)
        let path = try bench.folder.write(
            "lanyard.yaml", "listeners: [{address: \"127.0.0.1:0\"}]\nhealth: off\nadmin: off\n" + bench.yaml)
        let process = try ServerProcess("lanyard", ["run", "--config", path])
        #expect(try await process.waitForExit() == .code(78))
        let line = try await process.event("start.failed")
        #expect(line["reason"].string == "identity_tls", "\(line)")
        #expect(
            line["msg"].string?.contains("\(bench.folder.file("alice.key")) has a key that does not belong") == true)
    }

    @Test(
        "files that hang delay neither their own identity nor another one, neither health nor the stop",
        // A preloaded library comes before a sanitizer's runtime, which refuses that.
        .enabled("needs a program without sanitizer") { !Sanitizer.isOn })
    func hanging() async throws {
        let bench = try await Bench()
        let lanyard = try await bench.start(HangingFiles.launcher(under: bench.clock))
        try await bench.refresh(["alice", "bob"], times: 1, by: lanyard)
        let files = ["alice.key", "alice.pem", "ca.pem"].map(bench.folder.file)
        for file in files { try HangingFiles.hang(file) }
        defer { for file in files { HangingFiles.release(file) } }
        // The interval of a look, and the 5 s that a read may take.
        try await bench.clock.pass(.seconds(8), whenSettled: lanyard.process, bench.service)
        for file in files {
            try await lanyard.process.event("file.delayed") { $0["path"].string == file }
        }
        try await bench.refresh(["alice", "bob"], times: 3, by: lanyard)
        // The files hang until the end of the test.
        #expect(try await RawClient.ask(lanyard.health, "GET", "/livez").status == 200)
        bench.clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
