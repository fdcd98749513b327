import LanyardFoundations
import LanyardSettings

/// The form of a response of Lanyard's own (http-connections.md 19.5). Clients of MCP show no other than an error of JSON-RPC.
enum ResponseForm {
    case problem, jsonRPC

    /// The media type of the body.
    var contentType: String {
        switch self {
        case .problem: ProblemDetail.contentType
        case .jsonRPC: "application/json"
        }
    }
}

/// What a client of JSON-RPC has sent, as far as its response needs to know.
enum JSONRPCMessage {
    /// Some of it is a request, or may be one.
    case request
    /// Notifications and responses alone: no reply has an id to refer to.
    case withoutReply

    /// Of a refusal of it.
    var form: ResponseForm {
        switch self {
        case .request: .jsonRPC
        case .withoutReply: .problem
        }
    }

    /// - Parameter body: the whole message; a batch is an array.
    static func kind(of body: UnsafeRawBufferPointer) -> JSONRPCMessage {
        var reader = JSONReader(body, depthMax: 64)
        do throws(JSONError) {
            switch try reader.next() {
            case .objectStart: return try isRequest(&reader, in: body) ? .request : .withoutReply
            case .arrayStart:
                var hasMembers = false
                while true {
                    switch try reader.next() {
                    case .objectStart:
                        if try isRequest(&reader, in: body) { return .request }
                        hasMembers = true
                    case .arrayEnd: return hasMembers ? .withoutReply : .request
                    default: return .request
                    }
                }
            default: return .request
            }
        } catch {
            return .request
        }
    }

    /// Reads an object behind its start. One that is neither a notification nor a response counts as a request.
    private static func isRequest(
        _ reader: inout JSONReader, in body: UnsafeRawBufferPointer
    ) throws(JSONError) -> Bool {
        var (hasMethod, hasID, hasResult) = (false, false, false)
        while case .name(let name) = try reader.next() {
            let bytes = UnsafeRawBufferPointer(rebasing: body[name.range])
            if bytes.elementsEqual("method".utf8) { hasMethod = true }
            if bytes.elementsEqual("id".utf8) { hasID = true }
            if bytes.elementsEqual("result".utf8) || bytes.elementsEqual("error".utf8) { hasResult = true }
            try reader.skipValue()
        }
        return hasMethod ? hasID : !hasResult
    }
}
