import LanyardFoundations
import LanyardRequestPath
import TestSupport
import Testing

@testable import LanyardBroker

/// What an operator sees of the tokens that were given out (fleet.md 3).
@Suite struct IssuedTokensTests {
    private static let start = Instant(nanoseconds: 1_000_000_000)
    private let log = LogRecorder()

    private func token(_ generation: UInt64, _ text: String) -> AccessToken {
        AccessToken(
            user: UserIndex(0), generation: generation,
            token: Array(text.utf8).withUnsafeBytes { Secret(copying: $0) }, waitsFrom: .never, usableUntil: .never)
    }

    private func secret(_ text: String) -> Secret { Array(text.utf8).withUnsafeBytes { Secret(copying: $0) } }

    private func issue(
        _ issued: IssuedTokens, _ generation: UInt64 = 1, to caller: String = "uid:1", of user: String = "alice",
        audience: String = "", after duration: Duration = .zero
    ) {
        issued.record(
            token(generation, "secret-\(user)-\(generation)"),
            to: TokenGrant(of: UserIndex(0), by: .token, to: caller, audience: audience), of: user, expiresIn: 55,
            at: Self.start + duration)
    }

    /// The numbers of grants that the lines count.
    private var counts: [String] {
        log.lines.compactMap { $0.firstMatch(of: /"count": ([0-9]+)/).map { String($0.output.1) } }
    }

    @Test("a token and a caller have one line a minute, which counts the grants since the one before")
    func lines() {
        let issued = IssuedTokens(log: log.logger)
        for _ in 0..<5 { issue(issued) }
        #expect(counts == ["1"])
        issue(issued, after: .seconds(60) - .nanoseconds(1))
        #expect(counts == ["1"])
        issue(issued, after: .seconds(60))
        #expect(counts == ["1", "6"])
        issue(issued, after: .seconds(119))
        #expect(counts == ["1", "6"])
    }

    @Test("another token, caller, user or audience has a line of its own")
    func separate() {
        let issued = IssuedTokens(log: log.logger)
        issue(issued)
        issue(issued, to: "uid:2")
        issue(issued, of: "bob")
        issue(issued, audience: "audience https://a")
        #expect(counts == ["1", "1", "1", "1"])
        issue(issued, 2)
        #expect(counts == ["1", "1", "1", "1", "1"])
    }

    @Test("a line names the caller and the user, and never the token")
    func words() {
        let issued = IssuedTokens(log: log.logger)
        issue(issued, to: "name:worker.internal", audience: "audience https://a")
        #expect(log.lines.count == 1)
        let line = log.lines.first ?? ""
        for part in ["token.issued", "name:worker.internal", "alice", "audience https://a", "55", "info"] {
            #expect(line.contains(part), "\(part) in \(line)")
        }
        #expect(!line.contains("secret"))
    }

    @Test("grants are counted by caller and user, over all audiences")
    func samples() {
        let issued = IssuedTokens(log: log.logger)
        #expect(issued.samples.isEmpty)
        for _ in 0..<3 { issue(issued) }
        issue(issued, audience: "audience https://a")
        issue(issued, 2, to: "uid:2")
        let samples = issued.samples.map { sample in
            "\(sample.name)\(sample.suffix) \(sample.labels.map { "\($0.name)=\($0.value)" }) \(Int(sample.value))"
        }
        #expect(
            samples == [
                #"lanyard_tokens_issued_total ["caller=uid:1", "user=alice"] 4"#,
                #"lanyard_tokens_issued_total ["caller=uid:2", "user=alice"] 1"#,
            ])
    }

    @Test("a token that was given out tells its user; the oldest of many is forgotten, and no other is known")
    func subjects() {
        let issued = IssuedTokens(log: log.logger)
        issue(issued)
        issue(issued, of: "bob")
        #expect(issued.user(ofToken: secret("secret-alice-1")) == "alice")
        #expect(issued.user(ofToken: secret("secret-bob-1")) == "bob")
        #expect(issued.user(ofToken: secret("secret-alice-2")) == nil)
        for generation in UInt64(2)...4096 { issue(issued, generation) }
        #expect(issued.user(ofToken: secret("secret-alice-1")) == nil)
        #expect(issued.user(ofToken: secret("secret-bob-1")) == "bob")
        #expect(issued.user(ofToken: secret("secret-alice-4096")) == "alice")
    }
}
