/// Where h11 refuses what we accept: each with the rule that makes us. Nothing else may differ, and whatever both accept they read
/// the same.
enum PermittedDifference: String, CaseIterable, Sendable {
    /// Rule 1.2: up to four empty lines before a request are skipped (RFC 9112 §2.2: a server SHOULD); h11 takes none.
    case emptyLinesFirst
    /// Rule 5.1: leading zeros are decimal digits like others; h11 takes 20 digits at most.
    case lengthOfManyDigits
    /// Rule 6.3: white space may stand in front of `;` (RFC 9112 §7.1.1, BWS); h11 takes none there.
    case spaceBeforeExtension

    /// The rule of docs/reference/http-requests.md and its neighbours.
    var rule: String {
        switch self {
        case .emptyLinesFirst: "1.2"
        case .lengthOfManyDigits: "5.1"
        case .spaceBeforeExtension: "6.3"
        }
    }

    /// Whether h11's refusal of a message is this one.
    func explains(_ refusal: String, of message: HTTPMessage) -> Bool {
        switch self {
        case .emptyLinesFirst:
            message.kind == .request && message.bytes.first == 0x0d
                && (refusal.contains("no request line received") || refusal.contains("illegal request line"))
        case .lengthOfManyDigits: refusal.contains("bad Content-Length")
        case .spaceBeforeExtension:
            refusal.contains("illegal chunk header") && (refusal.contains(" ") || refusal.contains("\\t"))
                && refusal.contains(";")
        }
    }
}
