import LanyardFoundations

/// What a text of a response says of the state of a device login (RFC 8628 §3.5). Servers have their own words for it, in many members:
/// `authorization_pending: …`, "Authorization pending", `authorizationPending`.
struct DeviceStateText {
    /// Bytes of a text that are looked at.
    private static let bytesMax = 256

    /// Letters in small ones.
    private var words: [String] = []
    /// Between the word and the one before there is nothing but blanks, or a change of case.
    private var isClose: [Bool] = []

    init(_ text: JSONReader.Text, of bytes: UnsafeRawBufferPointer) {
        var word: [UInt8] = []
        var (count, former, hasSign) = (0, UInt8(0), false)
        var found: [(word: [UInt8], isClose: Bool)] = []
        func end() {
            if !word.isEmpty { found.append((word, !hasSign)) }
            if !word.isEmpty { (word, hasSign) = ([], false) }
        }
        JSONText.decode(text, of: bytes) { byte in
            count += 1
            guard count <= Self.bytesMax else { return }
            switch byte {
            case 0x41...0x5a, 0x61...0x7a:
                if 0x61...0x7a ~= former, 0x41...0x5a ~= byte { end() }
                word.append(byte | 0x20)
            // Within a word, as in "isn't", whichever apostrophe it has.
            case UInt8(ascii: "'"), 0x80...0xff: break
            default:
                end()
                hasSign = hasSign || byte != 0x20
            }
            former = byte
        }
        end()
        words = found.map { String(decoding: $0.word, as: UTF8.self) }
        isClose = found.map(\.isClose)
    }

    /// The error that RFC 8628 has for it; nil: the text tells no state.
    var state: String? {
        let letters = words.joined()
        if letters.contains("authorization"), letters.contains("pending"),
            begins(with: "authorizationpending") || !isDenied
        {
            return "authorization_pending"
        }
        if letters.contains("slowdown") { return "slow_down" }
        if letters.contains("expiredtoken") { return "expired_token" }
        return letters.contains("accessdenied") ? "access_denied" : nil
    }

    /// The name stands first, and what follows is an explanation behind a sign.
    private func begins(with name: String) -> Bool {
        var start = ""
        for (place, word) in words.enumerated() {
            start += word
            guard start.utf8.count >= name.utf8.count else { continue }
            return start == name && (place + 1 == words.count || !isClose[place + 1])
        }
        return false
    }

    /// "not pending", "no longer", "has expired". What is not the case *yet* is pending.
    private var isDenied: Bool {
        if words.contains("longer") || words.contains(where: Self.joined.contains) { return true }
        return !words.contains("yet") && !words.contains("still") && words.contains(where: Self.denials.contains)
    }

    private static let joined: Set<String> = ["notpending", "nopending", "nonpending", "unpending"]
    private static let denials: Set<String> = [
        "no", "not", "nor", "non", "neither", "never", "none", "nothing", "cannot", "without", "isnt", "wasnt", "arent",
        "werent", "hasnt", "havent", "hadnt", "doesnt", "dont", "didnt", "cant", "couldnt", "wont", "expired",
        "cancelled",
        "canceled", "denied", "rejected", "declined", "revoked", "aborted", "unknown", "gone",
    ]
}
