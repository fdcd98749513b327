import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import Logging

/// Where a server's endpoints are: as they are configured, else as its metadata says (RFC 8414, OpenID Connect Discovery).
///
/// Metadata that was read serves until other metadata comes, however old it is. All state belongs to the queue of `loop`.
final class OAuthDiscovery: Watcher, @unchecked Sendable {
    /// What a call wants of the metadata.
    enum Need {
        /// Former metadata serves if the server does not respond now.
        case known
        /// Only what the server says from now on.
        case confirmed
    }

    /// Metadata that is older is asked for again by the next call.
    static let lifetime = Duration.seconds(86_400)
    /// How long a call waits for the metadata if former metadata can serve it.
    static let waitMax = Duration.seconds(5)
    /// After a failure former metadata serves for so long before it is asked for again.
    static let retryInterval = Duration.seconds(300)
    /// A failure counts for all calls of the identity's users for so long, and no request is made: one each would ask again and again. An
    /// outage may end at any moment.
    static let failureInterval = Duration.seconds(1)
    /// The same for a failure that only another configuration, or a change at the server, ends.
    static let misplacedInterval = Duration.seconds(10)

    private struct PendingCall {
        let need: Need
        let progress: CallProgress?
        let reply: (Result<FoundEndpoints, IdentityError>) -> Void
    }

    private let name: String
    private let settings: IdentitySettings.OAuth
    private let usesCertificate: Bool
    private let fields: [String]
    private let http: CurlMulti
    private let loop: EventLoop
    private let logger: Logger
    /// The service's clock, by which assertions begin and end. The identity reads and corrects it, too.
    var clock = ServiceClock()

    /// What is known, and when to ask for more.
    private var state = KnownMetadata()
    /// Calls that wait for the metadata, whose request is then in flight.
    private var waiting: [PendingCall] = []
    private let patience = Deadline()
    private let request: PlaceRequest<OAuthMetadata>
    /// What the store has, until the first call takes it; then what is to be told of later metadata.
    private let kept = Guarded(KeptMetadata())

    /// What the store has of the server, and where later metadata goes.
    private struct KeptMetadata {
        var stored: StoredMetadata?
        /// nil: nothing is stored. It is set late because the sessions, which own the store, are made of their identities.
        var save: (@Sendable (StoredMetadata) -> Void)?
    }

    /// - Parameter fields: of the head of each request.
    init(
        of name: String, _ settings: IdentitySettings.OAuth, usesCertificate: Bool, fields: [String],
        over transport: IdentityTransport, logger: Logger
    ) {
        self.name = name
        self.settings = settings
        self.usesCertificate = usesCertificate
        self.fields = fields
        (http, loop) = (transport.http, transport.loop)
        self.logger = logger
        request = PlaceRequest(over: transport)
        super.init()
        patience.owner = self
    }

    // MARK: The store

    /// From any thread, before the first call.
    func keep(_ stored: [StoredMetadata], save: @escaping @Sendable (StoredMetadata) -> Void) {
        guard settings.endpoints.token == nil, let issuer = settings.issuer else { return }
        let url = settings.issuerURL ?? issuer
        kept.withLock { kept in
            kept.stored = stored.first { $0.issuer == issuer && $0.url == url }
            kept.save = save
        }
    }

    /// Takes what the store has, once: later the server's own words count. By a clock that went back, stored metadata is old.
    private func restore() {
        guard let stored = kept.withLock({ $0.stored.take() }), state.read == nil else { return }
        let age = WallTime.now - stored.readAt
        state.record(OAuthMetadata(stored), at: loop.now - (age < .zero ? Self.lifetime : age))
    }

    private func save(_ metadata: OAuthMetadata) {
        guard let issuer = settings.issuer, let save = kept.withLock({ $0.save }) else { return }
        let stored = metadata.stored(issuer: issuer, url: settings.issuerURL ?? issuer, at: .now)
        if stored.isStorable { save(stored) }
    }

    // MARK: Calls

    /// The endpoints: as configured, else those of the metadata.
    ///
    /// - Parameters:
    ///   - progress: of the call; is told which URL is waited for.
    ///   - deadline: of the call.
    func find(
        _ need: Need, _ progress: CallProgress?, by deadline: Instant,
        _ reply: @escaping (Result<FoundEndpoints, IdentityError>) -> Void
    ) {
        loop.assertIsCurrent()
        if settings.endpoints.token != nil {
            return reply(.success(FoundEndpoints(endpoints: settings.endpoints, metadata: nil, areRemembered: false)))
        }
        restore()
        if need == .known, let read = state.read, state.serves(at: loop.now) { return reply(.success(known(read))) }
        guard let issuer = settings.issuer else {
            var error = IdentityError(.transient(retryAfter: nil), message: "no token endpoint is configured")
            error.responsible = .operator
            return reply(.failure(error))
        }
        if state.askedAt == nil, state.read == nil, let error = state.failure(at: loop.now) {
            return reply(.failure(error))
        }
        waiting.append(PendingCall(need: need, progress: progress, reply: reply))
        if state.askedAt == nil {
            state.beginAsking(at: loop.now)
            let urls = OAuthMetadata.urls(of: settings.issuerURL ?? issuer)[...]
            let owner = PlaceRequest<OAuthMetadata>.Owner(
                ask: { [self] attempt, reply in ask(urls, issuer, attempt, reply) },
                isAwaited: { [self] in waiting.contains { $0.progress?.cancellation.isCancelled != true } },
                finish: { [self] in handle($0) })
            request.begin(by: deadline, owner)
        }
        request.repeatAfter(progress?.repeatsPlaceAfter)
        if need == .known, state.read != nil, let askedAt = state.askedAt {
            loop.set(patience, at: askedAt + Self.waitMax)
        }
    }

    /// The same, for a call to one of the endpoints. What was only remembered is asked for once more if it lacks that one: the server may
    /// have added it since.
    func find(
        _ place: KeyPath<OAuthEndpoints, String?>, _ progress: CallProgress?, by deadline: Instant,
        _ reply: @escaping (Result<FoundEndpoints, IdentityError>) -> Void
    ) {
        find(.known, progress, by: deadline) { [self] found in
            guard case .success(let former) = found, former.areRemembered, former.endpoints[keyPath: place] == nil
            else { return reply(found) }
            find(.confirmed, progress, by: deadline) { reply(.success((try? $0.get()) ?? former)) }
        }
    }

    /// The response to a call at a remembered endpoint says that nothing is there: where it is now, if the server says so.
    ///
    /// - Parameter reply: nil: it is no such response, or there is no other endpoint.
    func findMoved(
        _ place: KeyPath<OAuthEndpoints, String?>, of found: FoundEndpoints,
        _ outcome: Result<CurlResponse, CurlError>, _ progress: CallProgress?, by deadline: Instant,
        _ reply: @escaping (FoundEndpoints?) -> Void
    ) {
        loop.assertIsCurrent()
        guard found.areRemembered, outcome.isOfAnEndpointThatHasMoved else { return reply(nil) }
        find(.confirmed, progress, by: deadline) { result in
            let moved = try? result.get()
            let isOther = moved?.endpoints[keyPath: place].map { $0 != found.endpoints[keyPath: place] } ?? false
            reply(isOther ? moved : nil)
        }
    }

    /// The endpoints that a call gets now without a request; nil: none are known.
    var present: FoundEndpoints? {
        loop.assertIsCurrent()
        return state.read.map(known)
    }

    var isAsking: Bool {
        loop.assertIsCurrent()
        return state.askedAt != nil
    }

    private func known(_ read: OAuthMetadata) -> FoundEndpoints {
        FoundEndpoints(endpoints: merged(read), metadata: read, areRemembered: true)
    }

    private func merged(_ metadata: OAuthMetadata) -> OAuthEndpoints {
        let named = usesCertificate ? metadata.aliases.filled(from: metadata.endpoints) : metadata.endpoints
        return settings.endpoints.filled(from: named)
    }

    /// A response to a call at a remembered endpoint says that the server has moved: the next call asks where it is.
    func noteResponse(_ outcome: Result<CurlResponse, CurlError>) {
        loop.assertIsCurrent()
        if outcome.isOfAnEndpointThatHasMoved { state.doubt(asksAtOnce: true) }
    }

    /// A response may be that of another server at the former place.
    func doubt() {
        loop.assertIsCurrent()
        state.doubt(asksAtOnce: false)
    }

    // MARK: Refusals that wait for the metadata

    /// A remembered endpoint has refused a credential, and the metadata that would confirm it did not come.
    func noteUnconfirmed(_ credential: [UInt8]?, _ error: IdentityError) {
        loop.assertIsCurrent()
        if let credential { state.noteUnconfirmed(credential, error.message) }
    }

    /// The refusal of such a credential, which is not sent again before the metadata has come; nil: there is none.
    func unconfirmedRefusal(of credential: [UInt8]?) -> String? {
        loop.assertIsCurrent()
        return credential.flatMap { state.unconfirmed[$0] }
    }

    // MARK: The request

    /// - Parameter former: the failure of the places before that tells most.
    private func ask(
        _ urls: ArraySlice<String>, _ issuer: String, _ attempt: PlaceRequest<OAuthMetadata>.Attempt,
        after former: MetadataFailure? = nil, _ reply: @escaping (Result<OAuthMetadata, IdentityError>) -> Void
    ) {
        let url = urls.first ?? issuer
        for call in waiting { call.progress?.wait(for: url) }
        var request = CurlRequest(
            method: .get, url: url, fields: fields, kind: attempt.kind, deadline: attempt.deadline)
        request.cancellation = attempt.cancellation
        http.send(request) { [self] outcome in
            clock.update(from: outcome)
            switch MetadataFailure.read(outcome, url, issuer) {
            case .metadata(let metadata): reply(.success(metadata))
            case .failure(let failure):
                let telling = former.map { $0.rank >= failure.rank ? $0 : failure } ?? failure
                guard urls.count > 1, failure.leadsOn else { return reply(.failure(telling.error)) }
                ask(urls.dropFirst(), issuer, attempt, after: telling, reply)
            }
        }
    }

    private func handle(_ outcome: Result<OAuthMetadata, IdentityError>) {
        loop.drop(patience)
        let calls = waiting
        waiting = []
        switch outcome {
        case .success(let read):
            state.record(read, at: loop.now)
            save(read)
            logger.info(
                "The identity service has named its endpoints.",
                metadata: [
                    "event": "identity.located", "identity": "\(name)",
                    "origin": "\(read.endpoints.token?.prefix { $0 != "?" } ?? "")",
                ])
            let found = FoundEndpoints(endpoints: merged(read), metadata: read, areRemembered: false)
            for call in calls { call.reply(.success(found)) }
        case .failure(let error):
            state.recordFailure(error, at: loop.now)
            for call in calls {
                if call.need == .known, let read = state.read {
                    call.reply(.success(known(read)))
                } else {
                    call.reply(.failure(error))
                }
            }
        }
    }

    /// Calls that former metadata can serve wait no longer. The request stays in flight, for the calls after them.
    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        guard let read = state.read else { return }
        let served = waiting.filter { $0.need == .known }
        waiting.removeAll { $0.need == .known }
        for call in served { call.reply(.success(known(read))) }
    }
}

/// Endpoints, and how they are known.
struct FoundEndpoints {
    let endpoints: OAuthEndpoints
    /// nil: the endpoints are configured.
    let metadata: OAuthMetadata?
    /// From metadata that was not asked for by this call: the server may have moved since.
    let areRemembered: Bool

    /// The token endpoint by which an assertion names the server (RFC 7523 §3). An alias for clients with a certificate is a place
    /// where the same server takes calls (RFC 8705 §5), and no name of it.
    var namedTokenEndpoint: String? { metadata?.endpoints.token ?? endpoints.token }
}

/// What is known of a server's metadata, and when it is asked for. It decides; `OAuthDiscovery` asks.
struct KnownMetadata {
    /// Refusals that are remembered at once. Each is of another credential.
    static let unconfirmedMax = 1024

    /// As it was read last; nil: not yet.
    private(set) var read: OAuthMetadata?
    private var readAt = Instant.past
    /// The server may have moved since.
    private var isDoubted = false
    /// A request is in flight since then.
    private(set) var askedAt: Instant?
    /// Before, known metadata serves without a request, because the last one has failed.
    private var retryAt = Instant.past
    /// The latest request's, and until when it counts for all calls.
    private var latestFailure: (error: IdentityError, until: Instant)?
    /// Credentials that a remembered endpoint has refused, with what it said.
    private(set) var unconfirmed: [[UInt8]: String] = [:]

    /// What is known serves now, without a request.
    func serves(at now: Instant) -> Bool {
        if !isDoubted, now - readAt < OAuthDiscovery.lifetime { return true }
        return now < retryAt || askedAt.map { now >= $0 + OAuthDiscovery.waitMax } ?? false
    }

    mutating func beginAsking(at now: Instant) { askedAt = now }

    mutating func record(_ metadata: OAuthMetadata, at now: Instant) {
        self = KnownMetadata()
        (read, readAt) = (metadata, now)
    }

    mutating func recordFailure(_ error: IdentityError, at now: Instant) {
        (askedAt, retryAt) = (nil, now + OAuthDiscovery.retryInterval)
        let interval =
            error.responsible == .operator ? OAuthDiscovery.misplacedInterval : OAuthDiscovery.failureInterval
        latestFailure = (error, now + interval)
    }

    /// The latest failure while it counts for every call; nil: the next call asks.
    func failure(at now: Instant) -> IdentityError? {
        latestFailure.flatMap { now < $0.until ? $0.error : nil }
    }

    /// - Parameter asksAtOnce: what is known does not work, so the next call asks although the last request has failed.
    mutating func doubt(asksAtOnce: Bool) {
        isDoubted = true
        if asksAtOnce { retryAt = .past }
    }

    mutating func noteUnconfirmed(_ credential: [UInt8], _ message: String) {
        // A credential file that changes all the time must not use up the memory.
        if unconfirmed.count >= Self.unconfirmedMax, let some = unconfirmed.keys.first { unconfirmed[some] = nil }
        unconfirmed[credential] = message
    }
}

extension Result where Success == CurlResponse, Failure == CurlError {
    /// A redirect, or a status that says that nothing is there: the call was not performed.
    var isOfAnEndpointThatHasMoved: Bool {
        guard case .success(let response) = self else { return false }
        return 300..<400 ~= response.status || [404, 410, 421].contains(response.status)
    }
}
