import CLinux
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// What the program tells the service manager (sd_notify(3)).
@Suite struct ServiceManagerTests {
    /// The manager's end: a datagram socket, by path or by a name without a file.
    private final class Manager: Sendable {
        let variable: String
        private let raw: CInt

        init(path: String) throws {
            variable = path
            raw = try Self.bound(Array(path.utf8))
        }

        init(abstractName name: String) throws {
            variable = "@" + name
            raw = try Self.bound([0] + Array(name.utf8))
        }

        private static func bound(_ bytes: [UInt8]) throws -> CInt {
            let raw = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
            let offset = MemoryLayout<sockaddr_un>.offset(of: \sockaddr_un.sun_path) ?? 0
            let result = withUnsafeBytes(of: address) {
                bind(
                    raw, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(offset + bytes.count))
            }
            guard raw >= 0, result == 0 else { throw TestFailure("bind: errno \(errno)") }
            return raw
        }

        /// Messages until one has this line.
        func messages(until line: String) async throws -> [String] {
            var messages: [String] = []
            try await eventually("\(line) after \(messages)") {
                while !Self.has(line, messages.last), let message = next { messages.append(message) }
                return Self.has(line, messages.last)
            }
            return messages
        }

        /// The messages that have come and were not read.
        var pending: [String] {
            var messages: [String] = []
            while let message = next { messages.append(message) }
            return messages
        }

        static func has(_ line: String, _ message: String?) -> Bool {
            message?.split(separator: "\n").contains { $0 == line } == true
        }

        /// The next message that has come; nil: none.
        private var next: String? {
            var room = [UInt8](repeating: 0, count: 4096)
            let count = recv(raw, &room, room.count, CInt(MSG_DONTWAIT))
            return count < 0 ? nil : String(decoding: room.prefix(count), as: UTF8.self)
        }

        deinit { close(raw) }
    }

    private func lanyard(
        _ folder: TemporaryFolder, _ environment: [String: String], under clock: TestClock? = nil
    ) throws -> ServerProcess {
        try ServerProcess(
            "lanyard",
            [
                "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
                "127.0.0.1:0", "--health-address", "unix:\(folder.file("health"))", "--admin-address", "off",
            ], environment: environment, under: clock)
    }

    @Test("READY once it serves, a status line, STOPPING when the drain begins", arguments: [false, true])
    func ready(_ isAbstract: Bool) async throws {
        let folder = try TemporaryFolder()
        let name = "lanyard-test-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        let manager = isAbstract ? try Manager(abstractName: name) : try Manager(path: folder.file("notify"))
        let clock = try TestClock()
        let lanyard = try lanyard(folder, ["NOTIFY_SOCKET": manager.variable], under: clock)
        let first = try await manager.messages(until: "READY=1")
        #expect(first.count == 1 && first[0].hasPrefix("READY=1\nSTATUS=serving"), "\(first)")
        try await lanyard.event("listening")
        // The token may have been read before the listeners served; then nothing changes. A change is told within 5 s.
        if first != ["READY=1\nSTATUS=serving; default: token_valid"] {
            try await clock.pass(until: "the status is told", atMost: .seconds(6)) {
                manager.pending.contains { Manager.has("STATUS=serving; default: token_valid", $0) }
            }
        }
        lanyard.signal(SIGTERM)
        let last = try await manager.messages(until: "STOPPING=1")
        #expect(last.allSatisfy { !$0.contains("WATCHDOG") })
        #expect(try await lanyard.waitForExit() == .code(143))
    }

    @Test("RELOADING with its time and READY around a reload")
    func reload() async throws {
        let folder = try TemporaryFolder()
        let manager = try Manager(path: folder.file("notify"))
        let lanyard = try lanyard(folder, ["NOTIFY_SOCKET": manager.variable])
        _ = try await manager.messages(until: "READY=1")
        lanyard.signal(SIGHUP)
        let begun = try #require(try await manager.messages(until: "RELOADING=1").last)
        let time = try #require(begun.split(separator: "\n").last?.split(separator: "=").last.flatMap { Int($0) })
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000
        #expect(microseconds - 15_000_000...microseconds ~= time && begun.contains("MONOTONIC_USEC="), "\(begun)")
        _ = try await manager.messages(until: "READY=1")
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("signs of life within half of WATCHDOG_USEC, none if the variables are meant for another process")
    func watchdog() async throws {
        let folder = try TemporaryFolder()
        let manager = try Manager(path: folder.file("notify"))
        let variables = ["NOTIFY_SOCKET": manager.variable, "WATCHDOG_USEC": "2000000"]
        let clock = try TestClock()
        let lanyard = try lanyard(folder, variables, under: clock)
        _ = try await manager.messages(until: "READY=1")
        clock.stop()
        _ = manager.pending
        // The loop meets a deadline up to 20 ms late.
        for _ in 0..<4 {
            try await clock.pass(.milliseconds(1050))
            let signs = manager.pending.filter { $0.contains("WATCHDOG=1") }
            #expect(1...2 ~= signs.count, "\(signs)")
        }
        clock.run()
        #expect(try await lanyard.terminate() == .code(143))

        let other = try TemporaryFolder()
        let second = try self.lanyard(other, variables.merging(["WATCHDOG_PID": "1"]) { $1 }, under: clock)
        let told = try await manager.messages(until: "READY=1")
        try await clock.pass(.seconds(10))
        second.signal(SIGTERM)
        let rest = try await manager.messages(until: "STOPPING=1")
        #expect((told + rest).allSatisfy { !$0.contains("WATCHDOG=1") })
        #expect(try await second.waitForExit() == .code(143))
    }

    @Test("a manager that is gone, is full or has an odd address changes nothing")
    func gone() async throws {
        let folder = try TemporaryFolder()
        for place in [
            folder.file("nobody"), "@nobody-\(getpid())", "vsock:2:1", "", "relative",
            "/" + String(repeating: "x", count: 300),
        ] {
            let lanyard = try lanyard(folder, ["NOTIFY_SOCKET": place, "WATCHDOG_USEC": "100000"])
            let health = RawEndpoint.unix(folder.file("health"))
            try await eventually("it is ready") { (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200 }
            #expect(try await lanyard.terminate() == .code(143))
        }
    }
}
