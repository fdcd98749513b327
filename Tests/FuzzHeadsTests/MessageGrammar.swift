import TestSupport

/// Makes messages of HTTP/1.1: most of them sound, the others damaged in one to three places. The same in every run.
struct MessageGrammar {
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed) }

    mutating func message() -> HTTPMessage {
        let kind = HTTPMessage.Kind.allCases[pick(from: [0, 0, 0, 1, 1, 2])]
        var bytes = Array((kind == .request ? request() : response()).unicodeScalars.map { UInt8($0.value) })
        if chance(45) { for _ in 0..<Int.random(in: 1...3, using: &random) { damage(&bytes) } }
        return HTTPMessage(kind: kind, bytes: bytes)
    }

    // MARK: - Heads

    private mutating func request() -> String {
        var text = chance(4) ? String(repeating: "\r\n", count: Int.random(in: 1...5, using: &random)) : ""
        let version = one(of: ["1.1", "1.1", "1.1", "1.1", "1.0", "1.3"])
        let method = one(of: [
            "GET", "GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "M-SEARCH", "get", token(),
        ])
        text += "\(method) \(target()) HTTP/\(version)\r\n"
        var fields = self.fields()
        if version != "1.0" || chance(70) {
            fields.append("Host:\(space())\(one(of: ["a", "localhost:7400", "[::1]:80", ""]))\(space())")
        }
        return finish(text, fields, until: [.none, .length, .chunked], version)
    }

    private mutating func response() -> String {
        var text = ""
        while chance(12) {
            text +=
                "HTTP/1.1 \(one(of: ["100 Continue", "103 Early Hints", "102 ", "199", "101 Switching Protocols"]))\r\n"
            text += fields().map { $0 + "\r\n" }.joined() + "\r\n"
        }
        let version = one(of: ["1.1", "1.1", "1.1", "1.0", "1.7"])
        let status = one(of: [
            "200 OK", "200 OK", "200 OK", "204 No Content", "304 Not Modified", "404 Not Found", "599", "500 ",
            "401 \u{e9}\t!",
        ])
        text += "HTTP/\(version) \(status)\r\n"
        return finish(text, fields(), until: [.none, .length, .chunked], version)
    }

    private mutating func fields() -> [String] {
        (0..<Int.random(in: 0...4, using: &random)).map { _ in
            let name = one(of: [
                "Accept", "X-A", "Cookie", "Connection", "Expect", "Upgrade", "Via", "Date", "Keep-Alive", "TE", "x_y",
                "Content-Type",
                token(),
            ])
            return "\(name):\(space())\(value())\(space())"
        }
    }

    private mutating func value() -> String {
        one(of: [
            "", "a", "close", "keep-alive, Upgrade", "100-continue", "text/html; q=0.5", "\"quoted, \\\" text\"",
            "a \t b", "websocket",
            "\u{80}\u{ff}", ", ,", "a=b; c=\"d\"", "1, 2", token(), "timeout=5",
        ])
    }

    private mutating func target() -> String {
        one(of: ["/", "/a/b?c=d", "*", "http://a/x", "/%2e%2e/;x", "a:443", "/\(token())", "//", "/\"<>[]{}|\\^`", "?"])
    }

    private mutating func token() -> String {
        let letters = Array("abcXYZ019-._~!#$%&'*+^`|")
        return String((0..<Int.random(in: 1...9, using: &random)).map { _ in letters.randomElement(using: &random)! })
    }

    private mutating func space() -> String { one(of: ["", " ", " ", " ", "  ", "\t", " \t "]) }

    // MARK: - Bodies

    private enum Framing { case none, length, chunked }

    private mutating func finish(_ start: String, _ given: [String], until framings: [Framing], _ version: String)
        -> String
    {
        var fields = given
        var body = ""
        switch framings.randomElement(using: &random)! {
        case .none: break
        case .length:
            body = self.body()
            fields.append("\(one(of: ["Content-Length", "content-length"])):\(space())\(length(of: body))\(space())")
        case .chunked:
            body = chunks()
            // Mostly refused in HTTP/1.0 (rule 5.4), so seldom there.
            if version != "1.0" || chance(10) {
                fields.append(
                    "Transfer-Encoding:\(space())\(one(of: ["chunked", "chunked", "Chunked", "CHUNKED"]))\(space())")
            }
        }
        fields.shuffle(using: &random)
        let rest = one(of: ["", "", "", "GET / HTTP/1.1\r\n", "\r\n", "x"])
        return start + fields.map { $0 + "\r\n" }.joined() + "\r\n" + body + rest
    }

    private mutating func body() -> String {
        String(
            (0..<Int.random(in: 0...40, using: &random)).map { _ in
                Character(UnicodeScalar(UInt8.random(in: 0...255, using: &random)))
            })
    }

    private mutating func length(of body: String) -> String {
        let zeros = chance(6) ? String(repeating: "0", count: Int.random(in: 1...25, using: &random)) : ""
        return zeros + String(body.unicodeScalars.count + (chance(8) ? Int.random(in: -3...9, using: &random) : 0))
    }

    private mutating func chunks() -> String {
        var text = ""
        for _ in 0..<Int.random(in: 0...4, using: &random) {
            let body = self.body()
            let count = body.unicodeScalars.count
            guard count > 0 else { continue }
            let size = String(count, radix: 16, uppercase: chance(30))
            text += "\(chance(10) ? "000" : "")\(size)\(extensions())\r\n\(body)\r\n"
        }
        text += "\(one(of: ["0", "0", "0", "000"]))\(extensions())\r\n"
        if chance(25) { text += fields().map { $0 + "\r\n" }.joined() }
        return text + "\r\n"
    }

    private mutating func extensions() -> String {
        guard chance(12) else { return "" }
        return one(of: [";a", ";a=b", ";a=\"b;c\"", " ;a", ";a = b", ";\(token())=\"\\\"\"", "; a", ";a;b"])
    }

    // MARK: - Damage

    private mutating func damage(_ bytes: inout [UInt8]) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        let pieces = [
            "\r\n", "\n", "\r", " ", "\t", ":", ",", ";", "\u{0}", "\u{b}", "\u{7f}", "\u{85}", "+", "0",
            "Content-Length: 3\r\n",
            "Transfer-Encoding: chunked\r\n", "\r\n\r\n", "Host: b\r\n", "chunked", "HTTP/1.1", " folded\r\n", "-1",
            "0x", "identity, ",
        ]
        switch Int.random(in: 0..<6, using: &random) {
        case 0: bytes.insert(contentsOf: one(of: pieces).unicodeScalars.map { UInt8($0.value) }, at: place)
        case 1: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...4, using: &random)))
        case 2: if place < bytes.count { bytes[place] = UInt8.random(in: 0...255, using: &random) }
        case 3: bytes.removeSubrange(place...)
        case 4:
            let end = min(bytes.count, place + Int.random(in: 1...30, using: &random))
            bytes.insert(contentsOf: bytes[place..<end], at: place)
        default:
            // Where syntax is: next to a colon, a space or a line's end.
            guard let near = bytes[place...].firstIndex(where: { $0 == 0x0d || $0 == 0x20 || $0 == 0x3a }) else {
                return
            }
            bytes.insert(contentsOf: one(of: pieces).unicodeScalars.map { UInt8($0.value) }, at: near)
        }
    }

    // MARK: - Chance

    private mutating func one(of texts: [String]) -> String { texts.randomElement(using: &random)! }

    private mutating func pick(from numbers: [Int]) -> Int { numbers.randomElement(using: &random)! }

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
}
