import LanyardFoundations
import Logging

/// What becomes of a request's `Upgrade` (http-forwarding.md 15.1).
package enum UpgradeRequest: Equatable {
    /// The request has no `Upgrade`.
    case none
    /// The upstream is asked for this protocol, as the route spells it.
    case forwarded([UInt8])
    /// The field is dropped, and the request is an ordinary one.
    case dropped(UpgradeObstacle)

    /// - Parameters:
    ///   - table: of the head.
    ///   - bytes: begin with the head.
    package init(of head: RequestHead, _ table: FieldTable, in bytes: Bytes, on route: Route) {
        guard head.traits.contains(.upgrade) else {
            self = .none
            return
        }
        var asked = 0
        var allowed: [UInt8]?
        for index in 0..<table.count where table[index].name == .upgrade {
            for member in FieldList(table.value(index, in: bytes)) {
                asked += 1
                allowed =
                    allowed ?? route.upgrades.first { $0.withUnsafeBufferPointer { $0.equalsIgnoringCase(member) } }
            }
        }
        self =
            if asked == 0 {
                .dropped(.noProtocol)
            } else if let allowed {
                if head.minorVersion == 0 {
                    .dropped(.http10)
                } else if !head.connection.hasUpgrade {
                    .dropped(.notInConnection)
                } else {
                    asked > 1 ? .dropped(.severalProtocols) : .forwarded(allowed)
                }
            } else {
                .dropped(.notAllowed)
            }
    }
}

/// Why an `Upgrade` is dropped. Values of `upgrade_dropped` in the access log.
package enum UpgradeObstacle: String, CaseIterable, Sendable {
    case noProtocol = "no-protocol"
    /// None of the protocols is one of the route's `upgrades`.
    case notAllowed = "not-allowed-by-route"
    // The route allows the protocol, or one of them.
    case http10 = "http-1.0"
    /// `Connection` does not name `upgrade`: the field was meant for an earlier hop.
    case notInConnection = "not-in-connection"
    case severalProtocols = "several-protocols"

    /// A sentence for operators.
    package var explanation: String {
        switch self {
        case .noProtocol: "Upgrade names no protocol"
        case .notAllowed: "the route's upgrades do not name the protocol"
        case .http10: "the request is HTTP/1.0"
        case .notInConnection: "Connection does not name upgrade"
        case .severalProtocols: "Upgrade names several protocols"
        }
    }

    /// A protocol that the route allows is dropped: an operator expects the upgrade. Some clients ask for `h2c` with every request.
    var isUnexpected: Bool { self != .noProtocol && self != .notAllowed }
}

extension Shard {
    /// Logs that a request's `Upgrade` was dropped. Of each obstacle a few lines in a second.
    ///
    /// - Parameter request: is asked only if a line is written.
    func log(_ obstacle: UpgradeObstacle, _ request: () -> RefusedRequest) {
        loop.assertIsCurrent()
        let level: Logger.Level = obstacle.isUnexpected ? .info : .debug
        guard log.logLevel <= level else { return }
        let throttle = context.droppedUpgrades[obstacle.rawValue]
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
}
