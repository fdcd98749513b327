import COpenSSL

/// Random and derived identifiers in the service's formats. Hashes and digits are the emulator's own (architecture.md 3.2).
enum Identifiers {
    static func random(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        RAND_bytes(&bytes, CInt(count))
        return bytes
    }

    /// 24 random hex digits, the format of every id of the service.
    static func new() -> String { hex(random(12)) }

    /// 24 hex digits derived from text, for an app's domain and group.
    static func derived(from text: String) -> String { hex(sha256(Array(text.utf8)).prefix(12)) }

    /// 24 random lower-case letters, the tail of an anonymous identity's id.
    static func letters() -> String { String(random(24).map { Character(UnicodeScalar(97 + $0 % 26)) }) }

    /// 64 alphanumeric characters, as API keys are.
    static func key() -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
        return String(random(64).map { alphabet[Int($0) % alphabet.count] })
    }

    static func hex(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        SHA256(bytes, bytes.count, &digest)
        return digest
    }

    static let noDevice = String(repeating: "0", count: 24)

    static func isID(_ text: String) -> Bool { text.utf8.count == 24 && text.allSatisfy(\.isHexDigit) }
}
