import Foundation
import TestSupport

/// Times as logs and the admin API write them (RFC 3339), in seconds since 1970.
enum Timestamps {
    static var now: Double { Date().timeIntervalSince1970 }

    /// nil for what is no time.
    static func seconds(_ json: JSON) -> Double? {
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        return json.string.flatMap { try? Date($0, strategy: style).timeIntervalSince1970 }
    }
}
