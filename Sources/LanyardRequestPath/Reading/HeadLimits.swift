import LanyardSettings

/// The limits of one head (http-connections.md 8).
package struct HeadLimits: Equatable, Sendable {
    /// Request line or status line, without CRLF.
    package var startLineBytesMax: Int
    /// One field line, without CRLF.
    package var fieldLineBytesMax: Int
    /// All field lines with their CRLFs.
    package var sectionBytesMax: Int
    package var fieldsMax: Int

    package init(startLineBytesMax: Int, fieldLineBytesMax: Int, sectionBytesMax: Int, fieldsMax: Int) {
        self.startLineBytesMax = startLineBytesMax
        self.fieldLineBytesMax = fieldLineBytesMax
        self.sectionBytesMax = sectionBytesMax
        self.fieldsMax = fieldsMax
    }

    /// Requests and their trailer sections, as configured.
    package init(_ settings: LimitSettings) {
        self.init(
            startLineBytesMax: settings.requestLineBytesMax, fieldLineBytesMax: settings.headerBytesMax,
            sectionBytesMax: settings.headerBytesMax, fieldsMax: settings.headerFieldsMax)
    }

    /// A status line is shorter than this: a longer reason phrase is no phrase.
    private static let statusLineBytesMax = 8 << 10

    /// Responses and their trailer sections, as configured.
    package init(responses settings: LimitSettings) {
        self.init(
            startLineBytesMax: Self.statusLineBytesMax, fieldLineBytesMax: settings.responseHeader.bytesMax,
            sectionBytesMax: settings.responseHeader.bytesMax, fieldsMax: settings.responseHeader.fieldsMax)
    }

    /// Responses without a configuration.
    package static let response = HeadLimits(responses: LimitSettings())
    /// Trailer sections of operators' requests.
    package static let trailers = HeadLimits(
        startLineBytesMax: 0, fieldLineBytesMax: 16 << 10, sectionBytesMax: 16 << 10, fieldsMax: 32)

    /// Bytes of the longest head that is allowed: start line, section, the empty lines before and behind, their CRLFs.
    package var headBytesMax: Int { startLineBytesMax + sectionBytesMax + 16 }
}
