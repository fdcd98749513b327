import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Changed files of a listener's TLS are used without a restart, and without a lost request.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct ListenerTLSReloadTests {
    /// The serial number that a new connection is shown.
    private func serial(_ bench: ListenerTLSBench) async throws -> String {
        try await bench.python("with connect() as client: print(client.getpeercert()['serialNumber'])")
    }

    @Test("certificate, key and authority change under ten connections: no request fails, and new ones see the new")
    func load() async throws {
        let bench = try await ListenerTLSBench.start("client_ca_file: FOLDER/clients.pem")
        try bench.writeClient("client.pem", names: "DNS:any")
        let load = """
            import collections
            results, served, stop = collections.Counter(), [0] * 10, threading.Event()
            def serve(index):
                keeps = index % 5 > 0
                made = context(certificate="client.pem")
                client = connect(made)
                file = client.makefile("rb")
                while not stop.is_set():
                    try:
                        client.sendall(request("/"))
                        status = response(file)[0]
                        results[status] += 1
                        if status == 200: served[index] += 1
                        if not keeps:
                            results[client.getpeercert()["serialNumber"]] += 1
                            client.unwrap().close()
                            client = connect(made)
                            file = client.makefile("rb")
                    except Exception as error: results[repr(error)] += 1
                    time.sleep(0.02)
            def each_is_served():
                before = list(served)
                while min(now - then for now, then in zip(served, before)) < 2: time.sleep(0.02)
            threads = [threading.Thread(target=serve, args=[index], daemon=True) for index in range(10)]
            for thread in threads: thread.start()
            each_is_served()
            open(folder + "/serving", "w").close()
            while not os.path.exists(folder + "/reloaded"): time.sleep(0.02)
            each_is_served()
            stop.set()
            for thread in threads: thread.join()
            serials = [key for key in results if isinstance(key, str) and len(key) < 40]
            print(len(serials), {key: count for key, count in results.items() if key != 200 and key not in serials})
            """
        async let output = bench.python(load)
        let folder = bench.folder
        try await eventually("every client is served") {
            FileManager.default.fileExists(atPath: folder.file("serving"))
        }
        let next = ListenerTLSBench.authority.issue("DNS:localhost")
        try ListenerTLSBench.write(next, to: folder)
        _ = try await bench.lanyard.process.event("listener.tls.reloaded")
        // Another authority beside the first one: the clients of both are trusted.
        let other = TestAuthority("Another authority of clients")
        try ListenerTLSBench.replace("clients.pem", by: ListenerTLSBench.clientAuthority.pem + other.pem, in: folder)
        try await eventually("the second reload") {
            bench.lanyard.process.lines.count { $0.event == "listener.tls.reloaded" } == 2
        }
        try bench.writeClient("second.pem", names: "DNS:any", authority: other)
        #expect(try await bench.python("print(ask('/', context(certificate='second.pem'))[0])") == "200\n")
        try folder.write("reloaded", "")
        #expect(try await output == "2 {}\n")
    }

    @Test("a reload of other keys after a certificate was renewed: sessions are still resumed")
    func laterReload() async throws {
        let bench = try await ListenerTLSBench.start()
        try ListenerTLSBench.write(ListenerTLSBench.authority.issue("DNS:localhost"), to: bench.folder)
        _ = try await bench.lanyard.process.event("listener.tls.reloaded")
        async let output = bench.python(
            """
            made = context()
            with connect(made) as client:
                client.sendall(request("/"))
                print(response(client.makefile("rb"))[0])
                session = client.session
            open(folder + "/asked", "w").close()
            while not os.path.exists(folder + "/reloaded"): time.sleep(0.02)
            with connect(made, session=session) as client: print(client.session_reused)
            """)
        try await eventually("the client has a session") {
            FileManager.default.fileExists(atPath: bench.folder.file("asked"))
        }
        let folder = bench.lanyard.folder
        let text = try String(contentsOfFile: folder.file("lanyard.yaml"), encoding: .utf8)
        try folder.write("lanyard.yaml", text.replacing("log: {", with: "log: {level: debug, "))
        bench.lanyard.process.signal(SIGHUP)
        _ = try await bench.lanyard.process.event("reload.applied") { $0["keys"].string == "log.level" }
        try bench.folder.write("reloaded", "")
        #expect(try await output == "200\nTrue\n")
    }

    @Test(
        "a key without its certificate, a half-written file and a lost one: logged, and the old ones go on until all fit"
    )
    func mismatch() async throws {
        let bench = try await ListenerTLSBench.start()
        let old = try await serial(bench)
        let next = ListenerTLSBench.authority.issue("DNS:localhost")
        try ListenerTLSBench.replace("key.pem", by: next.key, in: bench.folder)
        let failed = try await bench.lanyard.process.event("listener.tls.failed")
        #expect(failed["reason"].string?.contains("does not belong to the certificate") == true)
        #expect(try await serial(bench) == old)
        try ListenerTLSBench.replace("cert.pem", by: String(next.certificate.prefix(200)), in: bench.folder)
        _ = try await bench.lanyard.process.event("listener.tls.failed") {
            $0["reason"].string?.contains("damaged") == true
        }
        #expect(try await serial(bench) == old)
        unlink(bench.folder.file("cert.pem"))
        _ = try await bench.lanyard.process.event("listener.tls.failed") {
            $0["reason"].string?.contains("does not exist") == true
        }
        #expect(try await serial(bench) == old)
        try ListenerTLSBench.replace("cert.pem", by: next.certificate, in: bench.folder)
        _ = try await bench.lanyard.process.event("listener.tls.reloaded")
        #expect(try await serial(bench) != old)
        try await bench.lanyard.process.settle()
        #expect(bench.lanyard.process.lines.count { $0.event == "listener.tls.failed" } == 3)
    }
}
