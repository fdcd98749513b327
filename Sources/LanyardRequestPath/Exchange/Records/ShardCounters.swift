import LanyardFoundations
import Synchronization

/// One shard's numbers for one route. Connections write, on the shard's queue, which they check. Read from any thread.
package final class RouteCounters: Sendable {
    /// Who has made the response.
    package enum Origin: String, CaseIterable, Sendable { case upstream, lanyard }

    /// Classes of statuses. `other` is 600 to 999, which some servers send. The last one is for requests without a response, because the
    /// client disconnected before.
    private static let classes = ["1xx", "2xx", "3xx", "4xx", "5xx", "other", "none"]
    private static let serverErrors = 4
    /// The column of class `2xx` and origin `upstream`.
    private static let upstreamSuccesses = 2

    /// Of the route; `none` for requests without one; nil: a sum over routes.
    let name: String?
    /// Class × origin.
    private let requests = CounterRow(count: RouteCounters.classes.count * 2)
    private let durationsOfUpstream = Histogram()
    private let durationsOfLanyard = Histogram()
    private let unauthorized = Counter()
    private let withoutToken = Counter()
    /// From the last byte of each request to the head of its final response.
    let upstreamDuration = Histogram()
    /// The pool of the route counts them, if the route is the first one with its upstream.
    let connections = UpstreamCounters()
    /// When the latest response of the upstream has ended; 0: there was none.
    private let respondedAt = Atomic<Int64>(0)
    /// The latest failures, for the status.
    let failures = RouteFailures()

    init(_ name: String) { self.name = name }

    /// The sum of some routes, for one page of metrics.
    init(sumOf routes: [RouteCounters]) {
        name = nil
        for route in routes {
            requests.add(route.requests)
            durationsOfUpstream.add(route.durationsOfUpstream)
            durationsOfLanyard.add(route.durationsOfLanyard)
            unauthorized.add(route.unauthorized.value)
            upstreamDuration.add(route.upstreamDuration)
            connections.add(route.connections)
        }
    }

    /// - Parameters:
    ///   - status: nil if the client disconnected before a response had begun.
    ///   - start: of the request's first byte.
    func countRequest(status: Int?, origin: Origin, from start: Instant, to end: Instant) {
        if origin == .upstream { respondedAt.store(end.nanoseconds, ordering: .relaxed) }
        durations(origin).observe(from: start, to: end)
        let none = Self.classes.count - 1
        let place = status.map { min(max($0 / 100 - 1, 0), none - 1) } ?? none
        requests.add(at: place * 2 + (origin == .upstream ? 0 : 1))
    }

    private var labels: [MetricSample.Label] { name.map { [.init("route", $0)] } ?? [] }

    private func durations(_ origin: Origin) -> Histogram {
        switch origin {
        case .upstream: durationsOfUpstream
        case .lanyard: durationsOfLanyard
        }
    }

    /// Requests that the upstream has responded to.
    var responseCount: UInt64 {
        stride(from: 0, to: requests.count, by: 2).reduce(0) { $0 + UInt64(requests[$1]) }
    }

    /// Those to which it has responded with 2xx or 3xx.
    var successCount: UInt64 { UInt64(requests[Self.upstreamSuccesses]) + UInt64(requests[Self.upstreamSuccesses + 2]) }

    /// When the latest response of the upstream has ended; `.past`: there was none.
    var latestResponseAt: Instant { Instant(nanoseconds: respondedAt.load(ordering: .relaxed)) }

    /// The numbers so far for the status.
    var counts: RouteCounts {
        func sum(_ columns: some Sequence<Int>) -> Int { columns.reduce(0) { $0 + requests[$1] } }
        let own = stride(from: 1, to: requests.count, by: 2)
        return RouteCounts(
            requests: sum(0..<requests.count), serverErrors: sum([Self.serverErrors * 2, Self.serverErrors * 2 + 1]),
            refusals: sum(own.filter { $0 / 2 != Self.serverErrors && $0 / 2 != Self.classes.count - 1 }),
            unauthorized: unauthorized.value, withoutToken: withoutToken.value)
    }

    /// A server error of Lanyard's own, because there was no token.
    func countWithoutToken() { withoutToken.add() }

    /// A response that means "token refused".
    func countUnauthorized() { unauthorized.add() }

    var unauthorizedSample: MetricSample {
        MetricSample(
            "lanyard_upstream_unauthorized", suffix: "_total", labels: labels, value: Double(unauthorized.value))
    }

    /// Of the upstream. The durations are left out before the first response.
    var upstreamSamples: [MetricSample] {
        let durations =
            upstreamDuration.isUsed
            ? upstreamDuration.samples("lanyard_upstream_duration_seconds", labels: labels) : []
        // A sum has no pools to look at: those of the routes' upstreams count here.
        return (name == nil ? connections.samples(labels) : []) + durations
    }

    /// Of origins that have had a request.
    var durationSamples: [MetricSample] {
        Origin.allCases.flatMap { origin -> [MetricSample] in
            let histogram = durations(origin)
            guard histogram.isUsed else { return [] }
            let labels = labels + [.init("origin", origin.rawValue)]
            return histogram.samples("lanyard_request_duration_seconds", labels: labels)
        }
    }

    var requestSamples: [MetricSample] {
        (0..<requests.count).compactMap { column in
            // An alert compares server errors with successes, so these are always reported. Other classes appear with
            // their first request.
            let isExpected = column / 2 == Self.serverErrors || column == Self.upstreamSuccesses
            let value = requests[column]
            if value == 0, !isExpected { return nil }
            let origin: Origin = column % 2 == 0 ? .upstream : .lanyard
            let labels =
                labels + [.init("code_class", Self.classes[column / 2]), .init("origin", origin.rawValue)]
            return MetricSample("lanyard_requests", suffix: "_total", labels: labels, value: Double(value))
        }
    }
}

/// One shard's numbers for `/metrics` besides those of its routes. Connections write, on the shard's queue, which they
/// check. Read from any thread.
package final class ShardCounters: Sendable {
    package enum DroppedField: String, CaseIterable, Sendable { case injected, lookalike, forwarded }
    package typealias Origin = RouteCounters.Origin

    /// Of requests that no route took.
    let withoutRoute = RouteCounters("none")
    private let rejections = RejectionReason.allCases.map { _ in Counter() }
    private let handshakes = HandshakeResult.allCases.map { _ in Counter() }
    // Not in a table: nearly each request has a field that is dropped.
    private let droppedInjected = Counter()
    private let droppedLookalikes = Counter()
    private let droppedForwarded = Counter()
    private let replayed = Counter()
    private let obstacles = ReplayObstacle.allCases.map { _ in Counter() }
    package let internalErrors = Counter()
    /// Tunnels that are open.
    let upgraded = Counter()
    let http2 = (clients: HTTP2Counters(.client), upstreams: HTTP2Counters(.upstream))
    private let countsHandshakes: Bool

    /// - Parameter countsHandshakes: a listener has TLS.
    package init(countsHandshakes: Bool = false) { self.countsHandshakes = countsHandshakes }

    func countRejection(_ reason: RejectionReason) {
        rejections[RejectionReason.allCases.firstIndex(of: reason)!].add()
    }

    func countHandshake(_ result: HandshakeResult) {
        handshakes[HandshakeResult.allCases.firstIndex(of: result)!].add()
    }

    func countDroppedField(_ kind: DroppedField) { counter(of: kind).add() }

    @inline(__always)
    private func counter(of kind: DroppedField) -> Counter {
        switch kind {
        case .injected: droppedInjected
        case .lookalike: droppedLookalikes
        case .forwarded: droppedForwarded
        }
    }

    func countReplay() { replayed.add() }

    func recordObstacle(_ replayObstacle: ReplayObstacle) {
        obstacles[ReplayObstacle.allCases.firstIndex(of: replayObstacle)!].add()
    }

    private var replaySamples: [MetricSample] {
        let results = [("replayed", replayed)] + zip(ReplayObstacle.allCases.map(\.rawValue), obstacles)
        return results.map { result, counter in
            MetricSample(
                "lanyard_replays", suffix: "_total", labels: [.init("result", result)], value: Double(counter.value))
        }
    }

    private var handshakeSamples: [MetricSample] {
        guard countsHandshakes else { return [] }
        return zip(HandshakeResult.allCases, handshakes).map { result, counter in
            MetricSample(
                "lanyard_tls_handshakes", suffix: "_total", labels: [.init("result", result.rawValue)],
                value: Double(counter.value))
        }
    }

    /// The shard's counters; the sums over all shards are published.
    ///
    /// - Parameters:
    ///   - routes: the counters of all routes.
    ///   - perRoute: false: the sums over all routes.
    package func samples(of routes: [RouteCounters], perRoute: Bool) -> [MetricSample] {
        let rows = perRoute ? routes + [withoutRoute] : [RouteCounters(sumOf: routes + [withoutRoute])]
        let routes = perRoute ? routes : rows
        var samples = rows.flatMap(\.requestSamples) + rows.flatMap(\.durationSamples)
        for (reason, counter) in zip(RejectionReason.allCases, rejections) {
            samples.append(
                MetricSample(
                    "lanyard_rejected_requests", suffix: "_total", labels: [.init("reason", reason.rawValue)],
                    value: Double(counter.value)))
        }
        samples += handshakeSamples
        for kind in DroppedField.allCases {
            samples.append(
                MetricSample(
                    "lanyard_dropped_fields", suffix: "_total", labels: [.init("kind", kind.rawValue)],
                    value: Double(counter(of: kind).value)))
        }
        samples += routes.map(\.unauthorizedSample) + replaySamples
        samples += routes.flatMap(\.upstreamSamples) + http2.clients.samples + http2.upstreams.samples
        samples.append(
            MetricSample("lanyard_internal_errors", suffix: "_total", value: Double(internalErrors.value)))
        samples.append(MetricSample("lanyard_upgraded_connections", value: Double(upgraded.value)))
        return samples
    }
}

/// Values of `reason` in `lanyard_rejected_requests_total` (architecture-control.md 7.2).
package enum RejectionReason: String, CaseIterable, Sendable {
    case malformed, expect, timeout, host, origin, forwarded, capability, caller, authorization, denied, method, path,
        limit, tls
}

/// Values of `result` in `lanyard_tls_handshakes_total`: how a client's handshake has ended.
enum HandshakeResult: String, CaseIterable {
    case completed, resumed
    // The causes of `TLSError` that a listener can have, by their labels.
    case unknownAuthority = "unknown_authority"
    case expired
    case notYetValid = "not_yet_valid"
    case wrongPurpose = "wrong_purpose"
    case verificationFailed = "verification_failed"
    case certificateMissing = "certificate_missing"
    case certificateRefused = "certificate_refused"
    case noSharedVersion = "no_shared_version"
    case noSharedCipher = "no_shared_cipher"
    case noSharedProtocol = "no_shared_protocol"
    case plainHTTP = "plain_http"
    case closedInHandshake = "closed_in_handshake"
    case reset
    case timedOut = "timed_out"
    case tooManyMessages = "too_many_messages"
    case helloTooLong = "hello_too_long"
    case tooManyHandshakes = "too_many_handshakes"
    case admissionChanged = "admission_changed"
    case alert
    case protocolViolation = "protocol_violation"

    init(_ error: TLSError) { self = Self(rawValue: error.label) ?? .protocolViolation }
}
