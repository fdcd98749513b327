import Foundation
import Glibc
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// What goes wrong around Lanyard: files that hang and change, an identity service and a network that fail, descriptors that run out.
struct SoakTrouble: Sendable {
    let bench: SoakBench
    let random: SoakRandom

    /// One kind of trouble after another, until so many requests and probes have ended; what it began it has ended then.
    func files(untilAnswer end: Int) async throws {
        while bench.findings.answers < end {
            let name = random.pick(SoakBench.members + ["fixed", "fixed", "admin"])
            switch random.number(0...3) {
            case 0: try await hang(name)
            case 1: try await changeInPlace(name)
            case 2: try await swap(name)
            default: try await takeAway(name)
            }
            try await bench.findings.pass(random.number(5...40))
        }
    }

    func identity(untilAnswer end: Int) async throws {
        while bench.findings.answers < end {
            bench.findings.count("identity troubles")
            switch random.number(0...9) {
            case 0: try await bench.emulator.control("POST", "/sessions/revoke", "{}")
            case 1...5: try await fault()
            default: try await network()
            }
            try await bench.findings.pass(random.number(50...200))
        }
    }

    func descriptors(untilAnswer end: Int) async throws {
        while bench.findings.answers < end {
            try await bench.findings.pass(random.number(150...350))
            bench.findings.count("shortages of descriptors")
            try Starving.limit(bench.lanyard, bench.tightLimit())
            try await bench.findings.pass(random.number(15...75))
            try Starving.limit(bench.lanyard, 1024)
        }
    }

    /// Guests come and go, tokens are refreshed by hand, and the admin token is guessed.
    func operators(untilAnswer end: Int) async throws {
        var number = 0
        while bench.findings.answers < end {
            number += 1
            switch random.number(0...4) {
            case 0: await admin("GET", "/v1/status")
            case 1:
                let name = "guest-\(number)"
                await admin(
                    "POST", "/v1/users",
                    #"{"name":"\#(name)","identity":"demo","credential":{"anonymous":{}},"activate":false}"#)
                await admin("DELETE", "/v1/users/\(name)")
            case 2: await admin("POST", "/v1/users/\(random.pick(SoakBench.members))/refresh")
            case 3: for guess in 0..<20 { await admin("GET", "/v1/users", token: "a guess \(guess)") }
            default: await admin("POST", "/v1/users/refused-\(number)/login", "{}")
            }
            try await bench.findings.pass(random.number(3...25))
        }
    }

    /// Everything is as it was before the storm.
    func end() async throws {
        try bench.gate.set(.pass)
        try await bench.emulator.control("DELETE", "/faults", "{}")
        try Starving.limit(bench.lanyard, 1024)
        for name in SoakBench.members { try bench.folder.write(name, SoakBench.password) }
        for name in SoakBench.members + ["fixed", "admin"] { HangingFiles.release(bench.folder.file(name)) }
    }

    // MARK: Files

    private func hang(_ name: String) async throws {
        bench.findings.count("files that hung")
        try HangingFiles.hang(bench.folder.file(name))
        if random.chance(70) { try await changeInPlace(name) }
        try await bench.findings.pass(random.number(10...200))
        HangingFiles.release(bench.folder.file(name))
    }

    /// As an editor does: no reader may believe what is there in between. It lasts far less than the 200 ms for which a file must rest.
    private func changeInPlace(_ name: String) async throws {
        bench.findings.count("files changed in place")
        let text = Array(content(name).utf8)
        let descriptor = open(bench.folder.file(name), O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TestFailure("\(name): errno \(errno)") }
        defer { close(descriptor) }
        let half = text.count / 2
        for part in [text[..<half], text[half...]] {
            try await bench.findings.pass(random.number(0...1))
            guard part.withUnsafeBytes({ write(descriptor, $0.baseAddress, $0.count) }) == part.count else {
                throw TestFailure("\(name): errno \(errno)")
            }
        }
    }

    private func swap(_ name: String) async throws {
        bench.findings.count("files swapped")
        try bench.folder.write(name + ".new", content(name))
        guard rename(bench.folder.file(name + ".new"), bench.folder.file(name)) == 0 else {
            throw TestFailure("\(name): errno \(errno)")
        }
    }

    /// Gone, or wrong, for a while.
    private func takeAway(_ name: String) async throws {
        bench.findings.count("files gone or wrong")
        if random.chance(50), SoakBench.members.contains(name) {
            try bench.folder.write(name, "wrong password")
        } else {
            unlink(bench.folder.file(name))
        }
        try await bench.findings.pass(random.number(10...150))
        try bench.folder.write(name + ".new", content(name))
        rename(bench.folder.file(name + ".new"), bench.folder.file(name))
    }

    /// What the file holds next. A static token is known before it stands in the file.
    private func content(_ name: String) -> String {
        switch name {
        case "fixed":
            let token = "fixed-token-\(random.number(1...1 << 40))-" + String(repeating: "f", count: 200)
            bench.fixedTokens.add(token)
            return token
        case "admin": return SoakBench.adminToken(random.number(0...9))
        default: return SoakBench.password
        }
    }

    // MARK: The identity service

    private func fault() async throws {
        let (kind, route) = random.pick([
            ("server_error", "*"), ("unavailable", "*"), ("too_many_requests", "refresh"), ("html", "*"),
            ("malformed", "*"),
            ("empty_unauthorized", "refresh"), ("answer_closed", "*"), ("answer_cut", "*"), ("answer_late", "*"),
        ])
        let times = random.number(1...3)
        try await bench.emulator.control(
            "POST", "/faults", #"{"route":"\#(route)","fault":"\#(kind)","times":\#(times)}"#)
    }

    private func network() async throws {
        let mode: FaultGate.Mode = random.pick([
            .refuse, .dropRequest(.reset), .dropRequest(.close), .tear(afterBytes: 0, .reset),
            .tear(afterBytes: 40, .close),
            .delayResponse(.milliseconds(300)), .drip(.milliseconds(1)), .garbage(Array("garbage\r\n\r\n".utf8)),
            .silence,
        ])
        try bench.gate.set(mode)
        if random.chance(30) { bench.gate.cut() }
        try await bench.findings.pass(random.number(10...100))
        try bench.gate.set(.pass)
        // Kept connections to which nothing was passed would wait for ever.
        bench.gate.cut()
    }

    // MARK: Operators

    /// Whatever it says: while the token's file is away or descriptors are short no client is let in.
    private func admin(_ method: String, _ path: String, _ body: String? = nil, token: String? = nil) async {
        let held = (try? String(contentsOfFile: bench.folder.file("admin"), encoding: .utf8)) ?? SoakBench.adminToken(0)
        let fields = [("Authorization", "Bearer \(token ?? held)")]
        let response = try? await RawClient.ask(
            bench.admin, method, path, fields: fields, body: body)
        bench.findings.count("admin calls \(response.map { "\($0.status / 100)xx" } ?? "without an answer")")
    }
}
