import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// How the process ends once it has served.
@Suite struct ExitTests {
    @Test("no cleanup of a library runs at the end: other threads may still be inside that library")
    func noCleanup() async throws {
        let folder = try TemporaryFolder()
        // The loader's own account (ld.so(8)): it calls the libraries' ends where exit() would run them.
        let arguments = [
            "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
            "127.0.0.1:0", "--health-address", "off", "--admin-address", "off",
        ]
        let lanyard = try ServerProcess(
            "lanyard", arguments, environment: ["LD_DEBUG": "files", "LD_DEBUG_OUTPUT": folder.file("loader")])
        try await lanyard.event("listening")
        #expect(try await lanyard.terminate() == .code(143))
        let account = try String(contentsOfFile: folder.file("loader.\(lanyard.pid)"), encoding: .utf8)
        #expect(account.contains("calling init: ") && account.contains("libcrypto.so"))
        let ends = account.split(separator: "\n").filter { $0.contains("calling fini: ") }
        #expect(ends.isEmpty, "\(ends.prefix(5))")
    }

    @Test("the last line is written, also to a pipe whose reader is slow", arguments: [SIGTERM, SIGINT])
    func lastLine(_ signal: CInt) async throws {
        let folder = try TemporaryFolder()
        let pipe = try NarrowPipe(in: folder)
        let health = RawEndpoint.unix(folder.file("health"))
        let arguments = [
            "run", "--upstream", "http://127.0.0.1:1", "--token-file", try folder.write("token", "t"), "--listen",
            "127.0.0.1:0", "--health-address", "\(health)", "--admin-address", "off",
        ]
        let command = Launcher.shell(redirections: "2>\(pipe.path)") + [try Products.path("lanyard")] + arguments
        let lanyard = try ServerProcess(command[0], Array(command.dropFirst()))
        var log = ""
        try await eventually("it is ready") {
            log += pipe.take()
            return (try? await RawClient.ask(health, "GET", "/readyz"))?.status == 200
        }
        log += pipe.take()
        pipe.fill()
        lanyard.signal(signal)
        try await eventually("health is closed") { (try? RawSocket.connect(to: health)) == nil }
        // A page is taken now and then, until the program has ended.
        try await eventually("it ends") {
            log += pipe.take()
            return lanyard.exit != nil
        }
        log += pipe.take()
        #expect(lanyard.exit == .code(signal == SIGTERM ? 143 : 130))
        #expect(log.contains("\"event\":\"shutdown.finished\""), "\(log.filter { $0 != NarrowPipe.filler })")
    }
}
