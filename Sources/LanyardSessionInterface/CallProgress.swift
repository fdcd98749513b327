import LanyardFoundations

/// A call to an identity service that has no response yet, for status and log. Readable on any thread.
package final class CallProgress: Sendable {
    /// After this time the status names the call as the cause, and the log has a line.
    package static let slowTime = Duration.seconds(5)

    /// What a call asks for.
    package struct Kind: RawRepresentable, Equatable, Sendable {
        /// One word, such as `login`; parts of it are joined by `_`.
        package let rawValue: String

        package init(rawValue: String) { self.rawValue = rawValue }

        /// The end of a session is told to the service.
        package static let revocation = Kind(rawValue: "revocation")
        /// Another login is added to an account.
        package static let link = Kind(rawValue: "link")
    }

    /// What the call asks for.
    package let kind: Kind
    /// When the call began.
    package let startedAt: Instant
    /// Holds the body back until the session has stored that it is sent; nil: it is sent as soon as the service is connected.
    package let gate: SendGate?
    /// Ends the call when its result is not wanted any more.
    package let cancellation = CallCancellation()
    /// How much time the call has.
    package let limit: Limit
    /// A request for the service's place, its metadata or location, gets another one beside it after this time without a response
    /// (refresh.md 17); nil: it gets none for this call.
    package let repeatsPlaceAfter: Duration?
    /// The access token that an upstream has refused: the call is to bring another one. nil: none was refused.
    package let refusedToken: Secret?
    private let waitingFor = Guarded<String?>(nil)

    /// The time that a call has with all its steps.
    package enum Limit: Equatable, Sendable {
        /// nil: that of the identity's calls.
        case of(Duration?)
        /// Of the second call of an attempt, which ends then (refresh.md 17).
        case until(Instant)
    }

    /// Of a call that a session makes for its token.
    package init(
        _ kind: SessionCall.Kind, startedAt: Instant = .now, gate: SendGate? = nil, timeout: Duration? = nil,
        repeatsPlaceAfter: Duration? = nil, inPlaceOf refusedToken: Secret? = nil
    ) {
        self.refusedToken = refusedToken
        self.kind = Kind(rawValue: kind.rawValue)
        self.startedAt = startedAt
        self.gate = gate
        self.repeatsPlaceAfter = repeatsPlaceAfter
        limit = .of(timeout)
    }

    /// Of the second call of an attempt.
    package init(_ kind: SessionCall.Kind, startedAt: Instant = .now, secondUntil deadline: Instant) {
        self.kind = Kind(rawValue: kind.rawValue)
        self.startedAt = startedAt
        gate = nil
        repeatsPlaceAfter = nil
        refusedToken = nil
        limit = .until(deadline)
    }

    /// Of any other call.
    package init(of kind: Kind, startedAt: Instant = .now) {
        self.kind = kind
        self.startedAt = startedAt
        gate = nil
        repeatsPlaceAfter = nil
        refusedToken = nil
        limit = .of(nil)
    }

    /// It is the second call of an attempt.
    package var isSecond: Bool { if case .until = limit { true } else { false } }

    /// The URL that the call waits for: the service's location, or its own. nil: no request has been sent, as while the credential's
    /// file is read.
    package var url: String? { waitingFor.withLock { $0 } }

    /// A request to this URL is sent. It is shown without its query, which a service may have written.
    package func wait(for url: String) {
        let shown = String(url.prefix { $0 != "?" && $0 != "#" })
        waitingFor.withLock { $0 = shown }
    }

    /// Whole seconds since the call began.
    package func ageSeconds(at now: Instant = .now) -> Int { Int((now - startedAt).inSeconds) }

    /// Whether the call takes long enough to be named.
    package func isSlow(at now: Instant = .now) -> Bool { now - startedAt >= Self.slowTime }

    /// The call in words: `the login has had no response of http://… for 7 s`.
    package func text(at now: Instant = .now) -> String {
        let kind = kind.rawValue.replacing("_", with: " ")
        guard let url else { return "the \(kind) has not been sent for \(ageSeconds(at: now)) s" }
        return "the \(kind) has had no response of \(url) for \(ageSeconds(at: now)) s"
    }
}
