import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// The first moments of `lanyard run`: what a signal does to them, and who exists when.
@Suite struct StartTests {
    private let folder: TemporaryFolder
    private let fifo: Fifo
    private let configuration: Data

    init() throws {
        folder = try TemporaryFolder()
        fifo = try Fifo(in: folder)
        let token = try folder.write("token", "a-token")
        configuration = Data(
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            identities: {fixed: {static: {token_file: \(token)}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            log: {level: debug}

            """.utf8)
    }

    private func start() throws -> ServerProcess { try ServerProcess("lanyard", ["run", "--config", fifo.path]) }

    @Test(
        "one thread only exists until everything is bound: a later one is under whatever the first has bound itself to",
        .enabled("a sanitizer has threads of its own") { !Sanitizer.isOn })
    func oneThread() async throws {
        let lanyard = try start()
        let handle = try await fifo.opened()
        #expect(lanyard.threadCount == 1)
        try handle.write(contentsOf: configuration)
        try handle.close()
        #expect(try await lanyard.event("start.bound")["threads"].int == 1)
        try await lanyard.event("listening")
        let events = lanyard.lines.compactMap(\.event)
        #expect(!events.contains("start.threads"))
        #expect(try #require(events.firstIndex(of: "start.bound")) < #require(events.firstIndex(of: "listening")))
        #expect(lanyard.threadCount > 1)
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("SIGHUP, SIGUSR1 and SIGUSR2 do not end a start", arguments: [SIGHUP, SIGUSR1, SIGUSR2])
    func harmless(_ signal: CInt) async throws {
        let lanyard = try start()
        let handle = try await fifo.opened()
        lanyard.signal(signal)
        try handle.write(contentsOf: configuration)
        lanyard.signal(signal)
        try handle.close()
        lanyard.signal(signal)
        try await lanyard.event("listening") { $0["listener"].string == "health" }
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test(
        "signals that end no run do so from its first moment on; other commands keep what the signal does by itself",
        arguments: [SIGHUP, SIGUSR1, SIGUSR2], ["run", "check"])
    func firstMoment(_ signal: CInt, _ command: String) async throws {
        // Help is printed before a command does anything; it is not read, so there the program stays.
        let pipe = try NarrowPipe(in: folder)
        let shell = [#"exec "$0" "$1" --help >"$2""#, try Products.path("lanyard"), command, pipe.path]
        let lanyard = try ServerProcess("/bin/sh", ["-c"] + shell)
        try await eventually("help is being printed") { pipe.isFull }
        lanyard.signal(signal)
        if command == "run" {
            try await eventually("it ends") {
                pipe.empty()
                return lanyard.exit != nil
            }
        }
        #expect(try await lanyard.waitForExit() == (command == "run" ? .code(0) : .signal(Int(signal))))
    }

    @Test(
        "SIGTERM and SIGINT end a start that waits for its configuration", arguments: [(SIGTERM, 143), (SIGINT, 130)])
    func waiting(_ signal: CInt, _ code: Int) async throws {
        let lanyard = try start()
        let handle = try await fifo.opened()
        lanyard.signal(signal)
        #expect(try await lanyard.waitForExit() == .code(code))
        try handle.close()
    }

    @Test("SIGTERM at whatever moment of the start is not lost", arguments: 0..<16)
    func anyMoment(_ number: Int) async throws {
        let lanyard = try start()
        let handle = try await fifo.opened()
        try handle.write(contentsOf: configuration)
        try handle.close()
        // Each case ends the start at another moment, which is an amount of the start's own work.
        let before = try ProcessorTime.preciseUsed(by: lanyard.pid)
        let work = Duration.microseconds(number * number * 100)
        let patience = Patience()
        while try ProcessorTime.preciseUsed(by: lanyard.pid) - before < work, !patience.isExhausted {
            if lanyard.lines.contains(where: { $0.event == "start.bound" }) { break }
            sched_yield()
        }
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test(
        "as process 1 of a container, too, SIGTERM ends a start",
        .enabled("needs root, to make a process namespace") { getuid() == 0 })
    func processOne() async throws {
        let command = ["--pid", "--fork", "--kill-child", try Products.path("lanyard"), "run", "--config", fifo.path]
        let unshare = try ServerProcess("/usr/bin/unshare", command)
        let handle = try await fifo.opened()
        let children = "/proc/\(unshare.pid)/task/\(unshare.pid)/children"
        let text = try String(contentsOfFile: children, encoding: .utf8)
        let lanyard = try #require(pid_t(text.trimmingCharacters(in: .whitespaces)))
        #expect(kill(lanyard, SIGTERM) == 0)
        #expect(try await unshare.waitForExit() == .code(143))
        try handle.close()
    }
}
