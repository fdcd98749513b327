import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Limits of the handshakes with a listener's clients: their number, their size, and their time in a drain.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct HandshakeLimitTests {
    /// A client whose handshake continues when the script says so.
    private static let steps = """
        class Client:
            def __init__(self, made):
                self.raw, self.incoming, self.outgoing = plain(), ssl.MemoryBIO(), ssl.MemoryBIO()
                self.session = made.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
                self.step()
                self.hello = self.outgoing.read()
            def step(self):
                try: self.session.do_handshake()
                except ssl.SSLWantReadError: return False
                return True
            def read(self):
                part = self.raw.recv(65536)
                self.incoming.write(part)
                return len(part) > 0
            def complete(self):
                while not self.step():
                    self.raw.sendall(self.outgoing.read())
                    if not self.read(): return False
                self.raw.sendall(self.outgoing.read())
                return True
            def ask(self):
                self.session.write(request("/"))
                self.raw.sendall(self.outgoing.read())
                while True:
                    try: return int(self.session.read(65536).split()[1])
                    except ssl.SSLWantReadError:
                        if not self.read(): return 0


        """

    @Test("a client that announces a hello of more than 16 KiB is refused by its header, with an alert and a reason")
    func longHello() async throws {
        let bench = try await ListenerTLSBench.start()
        let output = try await bench.python(
            """
            client = plain()
            client.sendall(bytes([0x16, 3, 1, 0, 4, 1, 2, 1, 68]))
            print(client.recv(100).hex(), client.recv(1))
            print(ask("/")[0])
            """)
        #expect(output == "1503030002022f b''\n200\n")
        #expect(try await bench.handshakes() == ["hello_too_long": 1, "completed": 1])
        _ = try await bench.lanyard.process.event("listener.tls.handshake_failed") {
            $0["reason"].string == "hello_too_long"
        }
    }

    @Test("parts of records count as buffers: near the limit their connections are closed, and others are served")
    func partialRecords() async throws {
        let bench = try await ListenerTLSBench.start(rest: "shards: 1\nlimits: {buffer_bytes_max: 1MiB}\n")
        let output = try await bench.python(
            Self.steps + """
                made, clients, poll = context(), [], select.poll()
                for _ in range(220):
                    client = Client(made)
                    client.raw.sendall(client.hello)
                    assert client.complete()
                    # The header of a record of 16 KiB.
                    client.raw.sendall(bytes([23, 3, 3, 64, 0]))
                    poll.register(client.raw.fileno(), select.POLLRDHUP)
                    clients.append(client)
                ask("/", made)
                print(ask("/", made)[0], len(poll.poll(0)) >= 100)
                """)
        #expect(output == "200 True\n")
        let held = try await bench.lanyard.metric("lanyard_buffer_bytes")
        #expect(held <= 1 << 20)
    }

    @Test("20.5 A shard has 512 handshakes in progress: for one more the oldest is closed, and the others complete")
    func number() async throws {
        let bench = try await ListenerTLSBench.start(rest: "shards: 1\nlimits: {header_timeout: 60s}\n")
        let output = try await bench.python(
            Self.steps + """
                made, clients = context(), []
                for _ in range(512):
                    client = Client(made)
                    client.raw.sendall(client.hello)
                    assert client.read()
                    clients.append(client)
                print(ask("/", made)[0], ask("/", made)[0])
                print(clients[0].raw.recv(1))
                print(sum(client.complete() and client.ask() == 200 for client in clients[1:]))
                """)
        #expect(output == "200 200\nb''\n511\n")
        #expect(try await bench.handshakes() == ["too_many_handshakes": 1, "completed": 513])
        _ = try await bench.lanyard.process.event("listener.tls.handshake_failed") {
            $0["reason"].string == "too_many_handshakes"
        }
    }

    @Test("20.1 A drain closes a client without a byte after 500 ms, and lets a handshake that has begun complete")
    func drain() async throws {
        let bench = try await ListenerTLSBench.start(rest: "limits: {header_timeout: 60s}\n")
        async let output = bench.python(
            Self.steps + """
                made = context()
                quiet, slow, silent = plain(), Client(made), Client(made)
                for client in [slow, silent]:
                    client.raw.sendall(client.hello[:40])
                open(folder + "/begun", "w").close()
                print(quiet.recv(1))
                # The drain has closed what it closes after 500 ms.
                for client in [slow, silent]:
                    client.raw.sendall(client.hello[40:])
                    print(client.read() and client.complete())
                print(slow.ask())
                while silent.read(): pass
                """)
        try await eventually("the handshakes have begun") {
            FileManager.default.fileExists(atPath: bench.folder.file("begun"))
        }
        bench.lanyard.process.signal(SIGTERM)
        #expect(try await output == "b''\nTrue\nTrue\n200\n")
        #expect(try await bench.lanyard.process.waitForExit() == .code(143))
    }
}
