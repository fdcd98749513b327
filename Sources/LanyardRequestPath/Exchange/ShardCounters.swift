import LanyardFoundations

/// One shard's numbers for `/metrics`. Written on the shard's queue, read from any thread.
package final class ShardCounters: Sendable {
    package enum DroppedField: String, CaseIterable, Sendable { case injected, lookalike, forwarded }
    package enum Origin: String, CaseIterable, Sendable { case upstream, lanyard }

    /// Classes of statuses. The last one is for requests without a response, because the client disconnected before.
    private static let classes = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"]

    private static let serverErrors = 4
    /// The column of class `2xx` and origin `upstream`.
    private static let upstreamSuccesses = 2

    /// By route, with one more row for requests without a route: class × origin.
    private let requests: [Counter]
    /// By route as `requests`, × origin.
    private let durations: [Histogram]
    private let rejections = RejectionReason.allCases.map { _ in Counter() }
    private let handshakes = HandshakeResult.allCases.map { _ in Counter() }
    private let droppedFields = DroppedField.allCases.map { _ in Counter() }
    private let unauthorized: [Counter]
    private let replayed = Counter()
    private let obstacles = RefusedResponse.ReplayObstacle.allCases.map { _ in Counter() }
    package let internalErrors = Counter()
    /// Tunnels that are open.
    let upgraded = Counter()
    private let routeNames: [String]

    private let countsHandshakes: Bool

    /// - Parameter countsHandshakes: a listener has TLS.
    package init(routeNames: [String], countsHandshakes: Bool = false) {
        self.countsHandshakes = countsHandshakes
        self.routeNames = routeNames + ["none"]
        unauthorized = routeNames.map { _ in Counter() }
        durations = (0..<((routeNames.count + 1) * 2)).map { _ in Histogram() }
        requests = (0..<((routeNames.count + 1) * Self.classes.count * 2)).map { _ in Counter() }
    }

    /// - Parameters:
    ///   - status: nil if the client disconnected before a response had begun.
    ///   - start: of the request's first byte.
    func request(route: Int?, status: Int?, origin: Origin, from start: Instant, to end: Instant) {
        let row = route ?? routeNames.count - 1
        durations[row * 2 + (origin == .upstream ? 0 : 1)].observe(from: start, to: end)
        let none = Self.classes.count - 1
        let place = status.map { min(max($0 / 100 - 1, 0), none - 1) } ?? none
        requests[(row * Self.classes.count + place) * 2 + (origin == .upstream ? 0 : 1)].add()
    }

    func rejected(_ reason: RejectionReason) { rejections[RejectionReason.allCases.firstIndex(of: reason)!].add() }

    func handshake(_ result: HandshakeResult) { handshakes[HandshakeResult.allCases.firstIndex(of: result)!].add() }

    func dropped(_ kind: DroppedField) { droppedFields[DroppedField.allCases.firstIndex(of: kind)!].add() }

    /// A response that means "token refused".
    func unauthorized(route: Int) { unauthorized[route].add() }

    func replay() { replayed.add() }

    func recordObstacle(_ replayObstacle: RefusedResponse.ReplayObstacle) {
        obstacles[RefusedResponse.ReplayObstacle.allCases.firstIndex(of: replayObstacle)!].add()
    }

    private var replaySamples: [MetricSample] {
        let results = [("replayed", replayed)] + zip(RefusedResponse.ReplayObstacle.allCases.map(\.rawValue), obstacles)
        return zip(routeNames, unauthorized).map { route, counter in
            MetricSample(
                "lanyard_upstream_unauthorized", suffix: "_total", labels: [.init("route", route)],
                value: Double(counter.value))
        }
            + results.map { result, counter in
                MetricSample(
                    "lanyard_replays", suffix: "_total", labels: [.init("result", result)],
                    value: Double(counter.value))
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

    /// Of routes that have had a request.
    private var durationSamples: [MetricSample] {
        durations.enumerated().flatMap { index, histogram -> [MetricSample] in
            guard histogram.isUsed else { return [] }
            let origin: Origin = index % 2 == 0 ? .upstream : .lanyard
            let labels: [MetricSample.Label] = [
                .init("route", routeNames[index / 2]), .init("origin", origin.rawValue),
            ]
            return histogram.samples("lanyard_request_duration_seconds", labels: labels)
        }
    }

    /// The shard's counters; the sums over all shards are published.
    package var samples: [MetricSample] {
        var samples: [MetricSample] = []
        for (row, route) in routeNames.enumerated() {
            for column in 0..<Self.classes.count * 2 {
                let value = requests[row * Self.classes.count * 2 + column].value
                // An alert compares server errors with successes, so these are always reported. Other classes appear
                // with their first request.
                let isExpected = column / 2 == Self.serverErrors || column == Self.upstreamSuccesses
                if value == 0, !isExpected { continue }
                let origin: Origin = column % 2 == 0 ? .upstream : .lanyard
                let labels: [MetricSample.Label] = [
                    .init("route", route), .init("code_class", Self.classes[column / 2]),
                    .init("origin", origin.rawValue),
                ]
                samples.append(
                    MetricSample("lanyard_requests", suffix: "_total", labels: labels, value: Double(value)))
            }
        }
        samples += durationSamples
        for (reason, counter) in zip(RejectionReason.allCases, rejections) {
            samples.append(
                MetricSample(
                    "lanyard_rejected_requests", suffix: "_total", labels: [.init("reason", reason.rawValue)],
                    value: Double(counter.value)))
        }
        samples += handshakeSamples
        for (kind, counter) in zip(DroppedField.allCases, droppedFields) {
            samples.append(
                MetricSample(
                    "lanyard_dropped_fields", suffix: "_total", labels: [.init("kind", kind.rawValue)],
                    value: Double(counter.value)))
        }
        samples += replaySamples
        samples.append(
            MetricSample("lanyard_internal_errors", suffix: "_total", value: Double(internalErrors.value)))
        samples.append(MetricSample("lanyard_upgraded_connections", value: Double(upgraded.value)))
        return samples
    }
}

/// Values of `reason` in `lanyard_rejected_requests_total` (architecture.md 7.2).
package enum RejectionReason: String, CaseIterable, Sendable {
    case malformed, expect, timeout, host, origin, forwarded, capability, caller, authorization, denied, method, path,
        limit, tls
}

/// Values of `result` in `lanyard_tls_handshakes_total`: how a client's handshake has ended.
enum HandshakeResult: String, CaseIterable {
    case completed, resumed
    // The causes of `TLSError` that a listener can meet, by their labels.
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
    case alert
    case protocolViolation = "protocol_violation"

    init(_ error: TLSError) { self = Self(rawValue: error.label) ?? .protocolViolation }
}
