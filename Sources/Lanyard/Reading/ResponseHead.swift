/// The content of a response's head. Offsets count from the first byte of the head's buffer.
package struct ResponseHead: Equatable, Sendable {
    package var status = 0
    package var reason: Range<Int> = 0..<0
    package var minorVersion = 1
    package var framing = BodyFraming.none
    package var connection = ConnectionOptions()
    /// A 204 that announces a body: its connection is not used again (http-rules.md 13.4).
    package var announcesForbiddenBody = false
    /// Seconds of `Keep-Alive: timeout=`, or -1.
    package var keepAliveSeconds = -1
    package var length = 0

    package init() {}

    /// A 1xx other than 101: more heads follow.
    package var isInterim: Bool { status < 200 && status != 101 }

    /// The upstream keeps the connection open (RFC 9112 §9.3).
    package var keepsAlive: Bool {
        minorVersion >= 1 ? !connection.close : connection.keepAlive && !connection.close
    }
}
