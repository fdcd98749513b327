import TestSupport
import Testing

/// What tests read of a message, where the messages are not as they should be.
@Suite struct RawMessageTests {
    private func message(_ head: String, body: String = "") -> RawMessage {
        var message = RawMessage(head: Array(head.utf8))
        message.body = Array(body.utf8)
        return message
    }

    @Test("lines end with LF or CRLF, blanks around a value are no part of it, a line without a colon is a name")
    func fields() {
        let message = message("GET / HTTP/1.1\nA: \t b \t\r\nnothing\nempty:\n:x\nc:d:e\r\n\r\n")
        #expect(message.startLine == "GET / HTTP/1.1")
        #expect(message.fields.map(\.name) == ["A", "nothing", "empty", "", "c"])
        #expect(message.fields.map(\.value) == ["b", "", "", "x", "d:e"])
        #expect(message["EMPTY"] == "" && message["a"] == "b" && message["b"] == nil)
    }

    @Test(
        "a start line has three words at most, the last with the rest",
        arguments: [
            ("", []), ("GET", ["GET"]), ("GET /", ["GET", "/"]),
            ("HTTP/1.1 404 Not Found", ["HTTP/1.1", "404", "Not Found"]),
            (" GET  / HTTP/1.1", ["GET", "/", "HTTP/1.1"]), ("a b  c ", ["a", "b", " c "]),
        ] as [(String, [String])])
    func words(line: String, words: [String]) {
        let message = message("\(line)\r\n\r\n")
        #expect(message.words == words && words == line.split(separator: " ", maxSplits: 2).map(String.init))
        #expect(message.status == (words.count == 3 && words[1] == "404" ? 404 : 0))
    }

    @Test("lines of the body are found by how they begin, with an end of line behind the last or without")
    func bodyLines() {
        let page = message("HTTP/1.1 200 OK\r\n\r\n", body: "ab 1\na 2\n\nxab\nab{}\nab")
        #expect(page.bodyLines(beginning: "ab") == ["ab 1", "ab{}", "ab"])
        #expect(page.bodyLines(beginning: "abc") == [] && message("").bodyLines(beginning: "a") == [])
    }
}
