import LanyardFoundations
import LanyardIdentity
import LanyardRequestPath

/// Holds the reading of the identity service's responses to its promises: the reader of JSON, of tokens in it, and of a JSON Web
/// Token's claims. What is cut off may end early, but means nothing else; what is accepted means the same when it is written anew.
final class JSONFuzz: FuzzTarget {
    private static let bytesMax = 64 << 10
    /// The longest escape is a surrogate pair.
    private static let escapeBytesMax = 12

    private let room = GuardedRoom(capacity: bytesMax)
    private let pieceRoom = GuardedRoom(capacity: bytesMax)
    private let writer = JSONRewriter()

    func check(_ input: Bytes) throws(BrokenPromise) {
        let bytes = UnsafeRawBufferPointer(room.atStart(input[run: 0..<min(input.count, Self.bytesMax)]))
        let error = writer.rewrite(bytes)
        let response = TokenOutcome(bytes)
        try checkPieces(bytes, error, response)
        try checkPrefix(bytes, error)
        guard error == nil else {
            try BrokenPromise.unless(!response.isAccepted, "an answer was taken that is no JSON")
            _ = JWTClaims(of: Secret(copying: bytes))
            return
        }
        try BrokenPromise.unless(!response.isNotJSON, "JSON is called none")
        try checkWrittenAnew(bytes, response)
    }

    /// A response arrives in pieces and is put together in wiped memory.
    private func checkPieces(
        _ bytes: UnsafeRawBufferPointer, _ error: JSONError?, _ response: TokenOutcome
    ) throws(BrokenPromise) {
        var cuts = FuzzCuts(bytes.assumingMemoryBound(to: UInt8.self))
        var buffer = SecretBuffer(capacity: 16)
        var place = 0
        while place < bytes.count {
            let end = cuts.end(from: place, of: bytes.count)
            buffer.append(UnsafeRawBufferPointer(rebasing: bytes[place..<end]))
            place = end
        }
        let again = buffer.withBytes { TokenOutcome($0) }
        try BrokenPromise.unless(again == response, "arrived in pieces, the answer is another")
    }

    /// A fault in the first part of a text is the whole text's, and one far in front of a cut is seen before it.
    private func checkPrefix(_ bytes: UnsafeRawBufferPointer, _ error: JSONError?) throws(BrokenPromise) {
        guard bytes.count > 0 else { return }
        var cuts = FuzzCuts(bytes.assumingMemoryBound(to: UInt8.self))
        for _ in 0..<2 {
            let end = Int(cuts.next() % UInt64(bytes.count))
            let first = JSONRewriter.error(
                in: UnsafeRawBufferPointer(pieceRoom.atEnd(bytes.assumingMemoryBound(to: UInt8.self)[run: 0..<end])))
            if let first {
                try BrokenPromise.unless(first.offset <= end, "a fault behind the text")
                let isCut = first.kind == .characters && first.offset + Self.escapeBytesMax > end
                let mayEnd = first.kind == .endsEarly || isCut
                try BrokenPromise.unless(mayEnd || first == error, "a fault that what comes later mends")
            }
            if let error, error.kind != .duplicateKey, error.offset + Self.escapeBytesMax <= end {
                try BrokenPromise.unless(first == error, "a fault that depends on what stands behind it")
            }
        }
    }

    private func checkWrittenAnew(_ bytes: UnsafeRawBufferPointer, _ response: TokenOutcome) throws(BrokenPromise) {
        let again = JSONRewriter()
        let error = writer.withBytes { again.rewrite($0) }
        try BrokenPromise.unless(error == nil, "what was accepted is refused when it is written anew")
        let isSame = writer.withBytes { text in again.withBytes { text.elementsEqual($0) } }
        try BrokenPromise.unless(isSame, "written anew, the text means something else")
        let other = writer.withBytes { TokenOutcome($0) }
        try BrokenPromise.unless(other.hasSameTokens(as: response), "written anew, the answer holds other tokens")
        let claims = JWTClaims(of: Self.token(bytes))
        let otherClaims = writer.withBytes { JWTClaims(of: Self.token($0)) }
        try BrokenPromise.unless(claims == otherClaims, "written anew, the claims are others")
    }

    /// A JSON Web Token with this payload.
    private static func token(_ payload: UnsafeRawBufferPointer) -> Secret {
        let digits: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        var buffer = SecretBuffer(capacity: payload.count * 4 / 3 + 8)
        buffer.append("h.")
        var bits: UInt32 = 0
        var held: UInt32 = 0
        for byte in payload {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                buffer.append(digits.utf8Start[Int(bits >> held & 63)])
            }
        }
        if held > 0 { buffer.append(digits.utf8Start[Int(bits << (6 - held) & 63)]) }
        buffer.append(".s")
        return buffer.seal()
    }
}
