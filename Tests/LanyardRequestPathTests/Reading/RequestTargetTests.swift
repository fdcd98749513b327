import LanyardRequestPath
import Testing

@Suite struct RequestTargetTests {
    struct Parts: Equatable {
        var form = ""
        var path = ""
        var query = ""
    }

    private static func parse(_ target: String, _ method: RequestHead.Method = .get) -> Parts? {
        Array(target.utf8).withUnsafeBufferPointer { bytes in
            func text(_ range: Range<Int>) -> String { String(decoding: bytes[run: range], as: UTF8.self) }
            guard let target = try? RequestTarget.parse(bytes, method: method) else { return nil }
            let form =
                switch target.form {
                case .origin: "origin"
                case .asterisk: "*"
                case .absolute(let authority): "\(text(target.scheme)) \(text(authority))"
                }
            return Parts(form: form, path: text(target.path), query: text(target.query))
        }
    }

    @Test(
        "targets fall into form, path and query, byte for byte",
        arguments: [
            ("/", Parts(form: "origin", path: "/")), ("/a?b=c?d", Parts(form: "origin", path: "/a", query: "?b=c?d")),
            ("/?", Parts(form: "origin", path: "/", query: "?")), ("//host/x", Parts(form: "origin", path: "//host/x")),
            ("/@host:80/", Parts(form: "origin", path: "/@host:80/")),
            ("/http://a/", Parts(form: "origin", path: "/http://a/")),
            ("http://a", Parts(form: "http a")), ("HTTP://a:80/b?c", Parts(form: "HTTP a:80", path: "/b", query: "?c")),
            ("http://a?q", Parts(form: "http a", query: "?q")),
            ("https://[::1]:1/", Parts(form: "https [::1]:1", path: "/")),
            ("http://a//b", Parts(form: "http a", path: "//b")),
        ])
    func forms(_ target: String, _ parts: Parts) { #expect(Self.parse(target) == parts) }

    @Test(
        "anything else is refused",
        arguments: [
            "*", "a", "a/b", "?a", "http:/a", "http:a", "://a", "http://", "http:///a", "http://?a", "http://u@a/",
            "http://u:p@a/", "ht_tp://a",
            "*/", "**", "localhost:80", "1http://a/", "+x://a/", "*x", "*?q", ".", "..", "localhost", "127.0.0.1:80",
            "http:", "http:/", "http//x", ":80", "-http://a/", "http://@a/", "mailto:a@b", "\\", "%2f", "&",
        ])
    func refused(_ target: String) { #expect(Self.parse(target) == nil) }

    @Test("* belongs to OPTIONS")
    func asterisk() {
        #expect(Self.parse("*", .options) == Parts(form: "*"))
        #expect(Self.parse("*x", .options) == nil)
    }

    @Test(
        "OPTIONS of the server as a whole is * or an origin without path and query",
        arguments: [("*", true), ("http://a", true), ("http://a/", false), ("http://a?q", false), ("/", false)])
    func targetsServer(_ target: String, _ asks: Bool) throws {
        let response = try Array(target.utf8).withUnsafeBufferPointer {
            try RequestTarget.parse($0, method: .options).targetsServer(.options)
        }
        #expect(response == asks)
    }
}
