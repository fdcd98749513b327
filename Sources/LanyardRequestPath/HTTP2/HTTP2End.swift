/// Why Lanyard ends a client's connection of HTTP/2 by a GOAWAY with an error: what its client has passed (H37 to H42). The value is
/// GOAWAY's debug data and the log's reason.
package enum HTTP2End: String, CaseIterable {
    /// Streams that were reset, or whose reset the client has provoked.
    case resets
    /// PING, SETTINGS, PRIORITY, unknown frames, DATA without bytes.
    case controlFrames = "control_frames"
    case windowUpdates = "window_updates"
    /// A list of fields of four times the limit.
    case headerList = "header_list"
    /// A head in too many frames.
    case continuations
    /// The rest of a head has not come in time (`limits.header_timeout`).
    case headerTimeout = "header_timeout"
    /// Bytes that are no HTTP/2.
    case malformed

    package var code: HTTP2Session.Code { self == .malformed ? .protocolError : .enhanceYourCalm }
}
