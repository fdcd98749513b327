import LanyardFoundations
import LanyardRequestPath

/// Decides from the head whether a caller may use the admin API, before any of the body is read (security.md T1 to T3, T15). Pure.
struct AdminAccessPolicy {
    /// A unix socket accepts any `Host`, because no DNS name can lead a browser to it.
    let hosts: AllowedHosts
    /// The bearer token of calls over TCP; nil: there is none, and calls over TCP are refused. A unix socket checks its peer instead.
    let token: Secret?
    let isTCP: Bool
    let ownUID: UInt32

    /// nil: the call is allowed.
    func decide(
        _ head: RequestHead, _ target: OperatorTarget, in bytes: Bytes, _ table: FieldTable, peer: PeerCredentials
    ) -> OperatorResponse? {
        guard isTCP || peer.isTrusted(by: ownUID) else { return .callerNotAllowed }
        if let refusal = target.refusal(by: hosts, head, in: bytes, table, unknown: .adminHostNotAllowed) {
            return refusal
        }
        if target.isFromWebPage(head, in: bytes, table) { return .originNotAllowed }
        guard !isTCP || carriesToken(in: bytes, table) else { return .tokenRequired }
        return nil
    }

    /// Whether the request has an `Authorization` field. If the token check fails, such a request is a guess.
    func carriesAuthorization(in bytes: Bytes, _ table: FieldTable) -> Bool {
        (0..<table.count).contains { table.name($0, in: bytes).equals(lowered: "authorization") }
    }

    /// Whether there is exactly one `Authorization` field, with the scheme Bearer (RFC 6750 §2.1) and the configured token.
    /// The comparison takes the same time wherever the tokens differ.
    private func carriesToken(in bytes: Bytes, _ table: FieldTable) -> Bool {
        guard let token else { return false }
        var given: Secret?
        for index in 0..<table.count where table.name(index, in: bytes).equals(lowered: "authorization") {
            let value = table.value(index, in: bytes)
            guard given == nil, value.hasPrefix(lowered: "bearer ") else { return false }
            given = Secret(copying: UnsafeRawBufferPointer(value[run: 7..<value.count].trimmed))
        }
        return given == token
    }
}

/// The delay of the response to a wrong admin token. It grows with the number of recent guesses. Pure.
///
/// A token of 32 random characters cannot be guessed at any rate. The delay limits the cost of a client that repeats a wrong token.
/// It does not limit the rate of guesses over many connections: a correct token is never delayed, so that guesses never delay an operator.
struct TokenGuessDelay {
    static let delayMin = Duration.milliseconds(50)
    static let delayMax = Duration.seconds(1)
    /// One guess is forgotten after each interval.
    private static let forgetInterval = Duration.seconds(1)
    /// More guesses than `delayMax` needs.
    private static let countMax = 6
    private static let backoff = Backoff(first: delayMin, max: delayMax, fixedShare: 1)

    private var count = 0
    private var latest = Instant.past

    /// The delay of one more wrong token.
    mutating func delay(at now: Instant) -> Duration {
        let forgotten = Int(min((now - latest) / Self.forgetInterval, Double(Self.countMax)))
        count = min(max(count - forgotten, 0) + 1, Self.countMax)
        latest = now
        return Self.backoff.delay(after: count, chance: 0)
    }
}
