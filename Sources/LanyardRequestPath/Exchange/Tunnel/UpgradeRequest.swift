import LanyardFoundations

/// What becomes of a request's `Upgrade` (http-forwarding.md 15.1).
package enum UpgradeRequest: Equatable {
    /// The request has no `Upgrade`.
    case none
    /// The upstream is asked for this protocol, as the route spells it.
    case forwarded([UInt8])
    /// The field is dropped, and the request is an ordinary one.
    case dropped(UpgradeObstacle)

    /// The upstream is asked for the only protocol that passes over HTTP/2, too (RFC 8441 §5).
    var isWebSocket: Bool {
        guard case .forwarded(let name) = self else { return false }
        return name.withUnsafeBufferPointer { $0.equals(lowered: "websocket") }
    }

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
