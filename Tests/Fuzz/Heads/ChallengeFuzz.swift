import LanyardRequestPath

/// Holds the reader of `WWW-Authenticate` to its promises: a value means the same wherever it stands, with white space around it, cut
/// at a comma into two fields, and when it is written anew.
final class ChallengeFuzz: FuzzTarget {
    private static let bytesMax = 8 << 10

    private let startRoom = GuardedRoom(capacity: bytesMax)
    private let endRoom = GuardedRoom(capacity: bytesMax)
    private let text = HeadText(capacity: 4 * bytesMax)
    private let table = FieldTable(capacity: 4)
    private let plainValue = HeadText(capacity: bytesMax)

    func check(_ input: Bytes) throws(BrokenPromise) {
        let value = startRoom.atStart(input[run: 0..<min(input.count, Self.bytesMax)])
        let hasCertificate = try compare(ChallengeReader(value), ChallengeReader(endRoom.atEnd(value)))
        _ = try compare(ChallengeReader(value), ChallengeReader(value.trimmed))
        try checkRefusal(value, hasCertificate: hasCertificate)
        guard hasCertificate else { return }
        try checkCut(value)
        write(value)
        _ = try compare(ChallengeReader(value), ChallengeReader(text.bytes))
    }

    // MARK: - Comparing

    /// Reads both to their ends or to the fault that they share.
    ///
    /// - Returns: whether they end without fault.
    private func compare(
        _ left: consuming ChallengeReader, _ right: consuming ChallengeReader
    ) throws(BrokenPromise) -> Bool {
        while true {
            let (one, hasCertificate) = step(&left)
            let (other, isSoundToo) = step(&right)
            try BrokenPromise.unless(hasCertificate == isSoundToo, "the same challenges, once a fault and once not")
            guard hasCertificate else { return false }
            guard let one, let other else {
                try BrokenPromise.unless(one == nil && other == nil, "the same challenges, once more and once fewer")
                return true
            }
            try checkElement(one)
            try BrokenPromise.unless(isSame(one, other), "the same challenges mean something else")
        }
    }

    private func step(_ reader: inout ChallengeReader) -> (ChallengeReader.Element?, hasCertificate: Bool) {
        do throws(HeadError) {
            return (try reader.next(), true)
        } catch {
            return (nil, false)
        }
    }

    private func isSame(_ left: ChallengeReader.Element, _ right: ChallengeReader.Element) -> Bool {
        switch (left, right) {
        case (.scheme(let one), .scheme(let other)), (.token68(let one), .token68(let other)):
            one.elementsEqual(other)
        case (.parameter(let name, let value), .parameter(let otherName, let otherValue)):
            name.elementsEqual(otherName) && value.isQuoted == otherValue.isQuoted
                && value.raw.elementsEqual(otherValue.raw)
        default: false
        }
    }

    private func checkElement(_ element: ChallengeReader.Element) throws(BrokenPromise) {
        switch element {
        case .scheme(let word):
            try BrokenPromise.unless(word.count > 0 && word.allSatisfy(ByteClass.isToken), "a scheme that is no token")
        case .token68(let word):
            let letters = word.prefix { $0 != UInt8(ascii: "=") }
            try BrokenPromise.unless(
                !letters.isEmpty && word[letters.endIndex...].allSatisfy { $0 == UInt8(ascii: "=") },
                "a token68 with something behind its padding")
        case .parameter(let name, let value):
            try BrokenPromise.unless(name.count > 0 && name.allSatisfy(ByteClass.isToken), "a name that is no token")
            try checkValue(value)
        }
    }

    private func checkValue(_ value: ChallengeValue) throws(BrokenPromise) {
        plainValue.clear()
        var isEscaped = false
        for byte in value.raw {
            try BrokenPromise.unless(
                value.isQuoted ? ByteClass.isValue(byte) : ByteClass.isToken(byte), "a byte that no value has")
            if value.isQuoted, !isEscaped, byte == UInt8(ascii: "\\") {
                isEscaped = true
                continue
            }
            try BrokenPromise.unless(isEscaped || byte != UInt8(ascii: "\""), "a quote within a value")
            isEscaped = false
            plainValue.add(byte)
        }
        try BrokenPromise.unless(!isEscaped, "a value that ends within an escape")
        for word in ["insufficient_scope", "invalid_token"] as [StaticString] {
            try BrokenPromise.unless(
                value.equals(lowered: word) == plainValue.bytes.equals(lowered: word), "a value is taken for another")
        }
    }

    // MARK: - Promises

    /// A field that cannot be read says nothing; one that can says no more than stands in it.
    private func checkRefusal(_ value: Bytes, hasCertificate: Bool) throws(BrokenPromise) {
        guard value.allSatisfy(ByteClass.isValue) else { return }
        text.clear()
        text.add("HTTP/1.1 401 \r\nWWW-Authenticate: ")
        text.add(value)
        text.add("\r\n\r\n")
        var reader = ResponseReader()
        guard (try? reader.read(text.bytes, into: table, isResponseToHead: false)) != nil else {
            throw BrokenPromise("a response is refused for its challenges")
        }
        let refusal = TokenRefusal(table, in: text.bytes)
        try BrokenPromise.unless(hasCertificate || refusal == .token, "challenges that cannot be read say something")
        guard refusal == .insufficientScope else { return }
        var challenges = ChallengeReader(value)
        while let element = step(&challenges).0 {
            guard case .parameter(let name, let value) = element, name.equals(lowered: "error") else { continue }
            if value.equals(lowered: "insufficient_scope") { return }
        }
        throw BrokenPromise("insufficient_scope is read where it does not stand")
    }

    /// Two fields of the name are one list (RFC 9110 §5.3).
    private func checkCut(_ value: Bytes) throws(BrokenPromise) {
        var cuts = FuzzCuts(value)
        guard let comma = comma(of: value, skipping: Int(cuts.next() & 3)) else { return }
        var whole = ChallengeReader(value)
        var parts = ChallengeReader(value[run: 0..<comma])
        var isSecond = false
        while true {
            var (element, hasCertificate) = step(&parts)
            if hasCertificate, element == nil, !isSecond {
                isSecond = true
                parts = ChallengeReader(value[run: (comma + 1)..<value.count], continued: true)
                (element, hasCertificate) = step(&parts)
            }
            try BrokenPromise.unless(hasCertificate, "in two fields, the challenges are refused")
            guard let expected = step(&whole).0, let element else {
                return try BrokenPromise.unless(
                    element == nil && step(&whole).0 == nil, "in two fields, there are more challenges or fewer")
            }
            try BrokenPromise.unless(isSame(expected, element), "in two fields, the challenges mean something else")
        }
    }

    /// A comma outside quotes, after passing over some.
    private func comma(of value: Bytes, skipping count: Int) -> Int? {
        var left = count
        var (isQuoted, isEscaped) = (false, false)
        for (index, byte) in value.enumerated() {
            if isEscaped {
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if !isQuoted, byte == UInt8(ascii: ",") {
                if left == 0 { return index }
                left -= 1
            }
        }
        return nil
    }

    /// The challenges in the plainest writing.
    private func write(_ value: Bytes) {
        text.clear()
        var reader = ChallengeReader(value)
        var isFirst = true
        var followsScheme = false
        while let element = step(&reader).0 {
            if !isFirst { text.add(followsScheme && !isScheme(element) ? " " : ", ") }
            (isFirst, followsScheme) = (false, isScheme(element))
            switch element {
            case .scheme(let word), .token68(let word): text.add(word)
            case .parameter(let name, let value):
                text.add(name)
                text.add(value.isQuoted ? "=\"" : "=")
                text.add(value.raw)
                if value.isQuoted { text.add("\"") }
            }
        }
    }

    private func isScheme(_ element: ChallengeReader.Element) -> Bool {
        if case .scheme = element { true } else { false }
    }
}
