import LanyardFoundations
import Logging

/// How many lines of the log Lanyard's own responses and failed handshakes leave (http-connections.md 20.5): of each kind a few in a
/// second, so that an operator sees every kind of failure although one of them floods. The others are counted, and a later line says how
/// many.
///
/// Shared by all shards.
struct RequestThrottles: Sendable {
    /// Lines of one kind in a second, all shards together.
    fileprivate static let linesPerSecondMax = 5

    /// Which problem responses are logged.
    let refusals: LogThrottles
    /// Which dropped upgrades are logged.
    let droppedUpgrades = Self.throttles(of: UpgradeObstacle.allCases.map(\.rawValue))
    /// Which connections of HTTP/2 that Lanyard has ended are logged.
    let http2Ends = Self.throttles(of: HTTP2End.allCases.map(\.rawValue))
    /// Which failed TLS handshakes of clients are logged.
    let handshakes = Self.throttles(of: HandshakeResult.allCases.map(\.rawValue))

    /// - Parameter problems: the names of all problems.
    init(problems: [String]) { refusals = Self.throttles(of: problems) }

    private static func throttles(of names: [String]) -> LogThrottles {
        LogThrottles(of: names, linesMax: linesPerSecondMax, per: .seconds(1))
    }
}

/// What the log says of a request that got a problem response.
struct RefusedRequest {
    let id: RequestID
    /// The client's own request id; empty if there is none.
    var clientID = ""
    /// Empty if the head could not be read.
    var method = ""
    /// Without the query, whose values may be secrets.
    var path = ""
    var host = ""
    var route = ""
    var user = ""
}

/// The lines that one shard's requests and handshakes leave in the log, no more than `RequestThrottles` admits. Belongs to the shard's
/// queue.
final class RequestLog {
    /// Lines in a second at debug level, of one shard.
    private static let debugLinesPerSecondMax = 1000

    let log: Logger
    let throttles: RequestThrottles
    /// Which problem responses are logged at debug level.
    let debugRefusals = SharedLogThrottle(linesMax: debugLinesPerSecondMax, per: .seconds(1))
    /// Lines about requests that meet the renewal of their token and cannot be sent again.
    private let unrepeatableRequests = SharedLogThrottle(
        linesMax: RequestThrottles.linesPerSecondMax, per: .seconds(1))
    /// Counts of lines that were left out.
    let suppressed: SuppressedLines
    let loop: EventLoop

    /// - Parameter throttles: of the process.
    init(_ log: Logger, _ throttles: RequestThrottles, on loop: EventLoop) {
        self.log = log
        self.throttles = throttles
        suppressed = SuppressedLines(loop: loop)
        self.loop = loop
    }

    /// Logs that a request's `Upgrade` was dropped. Of each obstacle a few lines in a second.
    ///
    /// - Parameter request: is asked only if a line is written.
    func record(_ obstacle: UpgradeObstacle, _ request: () -> RefusedRequest) {
        loop.assertIsCurrent()
        let level: Logger.Level = obstacle.isUnexpected ? .info : .debug
        guard log.logLevel <= level else { return }
        let throttle = throttles.droppedUpgrades[obstacle.rawValue]
        guard let leftOut = throttle.admitLine(at: loop.now) else {
            guard !suppressed.isPending(throttle) else { return }
            return suppressed.add(throttle) { [log] count in
                log.log(
                    level: level, "further requests were forwarded without their Upgrade",
                    metadata: [
                        "event": "request.upgrade_dropped", "reason": .string(obstacle.rawValue),
                        "left_out": .stringConvertible(count),
                    ])
            }
        }
        let request = request()
        var metadata: Logger.Metadata = [
            "event": "request.upgrade_dropped", "reason": .string(obstacle.rawValue),
            "cause": .string(obstacle.explanation), "request_id": .string(request.id.description),
            "method": .string(request.method), "path": .string(request.path), "route": .string(request.route),
        ]
        if !request.clientID.isEmpty { metadata["client_request_id"] = .string(request.clientID) }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.log(level: level, "the request is forwarded without its Upgrade", metadata: metadata)
    }

    /// Logs that a client's connection of HTTP/2 was ended.
    func record(_ end: HTTP2End, peer: SocketAddress?) {
        loop.assertIsCurrent()
        guard log.logLevel <= .info else { return }
        let throttle = throttles.http2Ends[end.rawValue]
        guard let leftOut = throttle.admitLine(at: loop.now) else {
            guard !suppressed.isPending(throttle) else { return }
            return suppressed.add(throttle) { [log] count in
                log.info(
                    "further connections of HTTP/2 were ended",
                    metadata: [
                        "event": "client.ended", "reason": .string(end.rawValue),
                        "left_out": .stringConvertible(count),
                    ])
            }
        }
        var metadata: Logger.Metadata = [
            "event": "client.ended", "reason": .string(end.rawValue),
        ]
        if let peer { metadata["peer"] = .string(peer.description) }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.info("a client's connection of HTTP/2 was ended", metadata: metadata)
    }

    /// Logs that the TLS handshake of a client has failed.
    ///
    /// - Parameter certificate: the client's that was refused; nil: none was.
    func record(_ error: TLSError, certificate: RefusedCertificate?, peer: SocketAddress?) {
        loop.assertIsCurrent()
        guard log.logLevel <= .info else { return }
        let throttle = throttles.handshakes[HandshakeResult(error).rawValue]
        guard let leftOut = throttle.admitLine(at: loop.now) else {
            guard !suppressed.isPending(throttle) else { return }
            return suppressed.add(throttle) { [log] count in
                log.info(
                    "further TLS handshakes with clients have failed",
                    metadata: [
                        "event": "listener.tls.handshake_failed", "reason": .string(error.label),
                        "left_out": .stringConvertible(count),
                    ])
            }
        }
        var metadata: Logger.Metadata = [
            "event": "listener.tls.handshake_failed", "reason": .string(error.label),
            "cause": .string(error.message(.client, certificate)),
        ]
        if let peer { metadata["peer"] = "\(peer)" }
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.info("the TLS handshake with a client has failed", metadata: metadata)
    }

    /// The token was renewed while the request was on its way, the upstream does not take the former one any more, and the request cannot
    /// be sent again: its client gets the refusal. A server that ends the former token with each renewal causes that.
    func record(_ obstacle: ReplayObstacle, status: Int, of id: @autoclosure () -> RequestID, on route: String) {
        loop.assertIsCurrent()
        guard let leftOut = unrepeatableRequests.admitLine(at: loop.now) else { return }
        var metadata: Logger.Metadata = [
            "event": "request.not_replayed", "reason": .string(obstacle.rawValue),
            "status": .stringConvertible(status), "request_id": "\(id())", "route": "\(route)",
        ]
        if leftOut > 0 { metadata["left_out"] = .stringConvertible(leftOut) }
        log.warning(
            "the upstream refuses a token that was renewed while the request was on its way; the request cannot be sent again",
            metadata: metadata)
    }
}
