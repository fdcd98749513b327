/// `http2:` — what holds for connections of HTTP/2, of clients and to upstreams.
package struct HTTP2Settings: Hashable, Sendable {
    /// Streams that a client may have open at once.
    package var streamsMax = 128
    /// Bytes that may come on one stream before some have left on the other side.
    package var streamWindow = 64 << 10
    /// The same of a connection.
    package var connectionWindow = 16 << 20
    /// An upstream that is silent so long while streams are open is asked whether it is there.
    package var pingAfter = Duration.seconds(15)
    /// How long it may take to reply.
    package var pingTimeout = Duration.seconds(10)
    /// Age from which an upstream's connection takes no further request; nil: any.
    package var maxAge: Duration?
    /// Requests of one upstream's connection; nil: any number.
    package var requestsMax: Int?

    package init() {}
}
