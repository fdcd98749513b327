/// A type, a function, or a property that is computed.
struct SourceDeclaration {
    enum Kind { case type, function, property }

    let kind: Kind
    /// With the types that it is in: `StoredRelation.Known.init`.
    let name: String
    /// Of its keyword, from 1.
    let line: Int
    /// Of its closing brace; nil: it has no body.
    var endLine: Int?
    /// `package`, `static` and their like.
    let modifiers: Set<String>
    /// The lines of its comment.
    let comment: [String]
    /// A protocol demands it.
    let isRequirement: Bool
    /// Of a type: the words behind its name, such as the protocols that it conforms to.
    var heritage: Set<String> = []
    /// Of a type: those of its instances that take storage. One with `didSet` or `willSet` does.
    var storedProperties = 0
    /// It throws errors of its own, or those of a closure that it gets.
    var throwsErrors = false

    /// From its keyword to its closing brace.
    var lineCount: Int { endLine.map { $0 - line + 1 } ?? 0 }
}

/// Reads the declarations of a Swift text, also those inside of functions.
struct SourceDeclarations {
    /// The declarations around a place.
    private struct Scope {
        enum Kind { case file, code, type, requirements }

        let kind: Kind
        var names: [String] = []
        /// Its type in `found`; nil: an extension, whose properties take no storage, or no type.
        var type: Int?
    }

    /// What stands before the keyword of a declaration.
    private struct Head {
        var modifiers: Set<String> = []
        var comment: [String] = []
    }

    private static let types: Set<String> = ["struct", "class", "enum", "actor", "extension", "protocol"]
    private static let functions: Set<String> = ["func", "init", "deinit", "subscript"]
    private static let others: Set<String> = [
        "case", "typealias", "associatedtype", "import", "operator", "precedencegroup", "macro",
    ]
    private static let modifiers: Set<String> = [
        "private", "fileprivate", "internal", "package", "public", "open", "static", "final", "override", "mutating",
        "nonmutating", "consuming", "borrowing", "lazy", "weak", "unowned", "nonisolated", "indirect", "convenience",
        "required", "dynamic", "isolated", "prefix", "postfix", "infix", "optional", "sending", "distributed",
    ]

    private let tokens: [SwiftToken]
    private var index = 0
    private var found: [SourceDeclaration] = []
    private var isBalanced = true

    /// nil: its brackets have no pairs, so that no count would be right.
    static func all(in text: String) -> [SourceDeclaration]? {
        var reader = SourceDeclarations(tokens: SwiftTokens.all(of: text))
        while reader.index < reader.tokens.count { reader.readMember(of: Scope(kind: .file)) }
        return reader.isBalanced ? reader.found : nil
    }

    private init(tokens: [SwiftToken]) { self.tokens = tokens }

    private func token(_ offset: Int = 0) -> SwiftToken {
        tokens.indices.contains(index + offset) ? tokens[index + offset] : .end
    }

    private func isAt(_ sign: String) -> Bool { token().text == sign && token().kind == .sign }

    /// Behind a statement or a declaration.
    private var isAtStart: Bool {
        let token = token()
        guard token.isFirst else { return false }
        switch token.kind {
        case .comment, .directive, .end: return true
        case .sign: return token.text == "@" || token.text == "}"
        case .word:
            return Self.modifiers.contains(token.text) || Self.types.contains(token.text)
                || Self.functions.contains(token.text) || Self.others.contains(token.text)
                || token.text == "let" || token.text == "var"
        case .literal: return false
        }
    }

    /// From an opening bracket to behind the closing one; the line of that.
    ///
    /// - Parameter scope: declarations inside are found as well.
    @discardableResult
    private mutating func skipBrackets(_ scope: Scope? = nil) -> Int {
        index += 1
        while index < tokens.count {
            let token = tokens[index]
            if token.isClosing {
                index += 1
                return token.line
            } else if token.isOpening {
                skipBrackets(scope)
            } else if let scope, token.kind == .word, self.token(-1).text != ".", startsDeclaration(token.text) {
                readMember(of: Scope(kind: .code, names: scope.names))
            } else {
                index += 1
            }
        }
        isBalanced = false
        return 0
    }

    /// A word in code, which may be a name as well.
    private func startsDeclaration(_ word: String) -> Bool {
        switch word {
        case "func": true
        case "struct", "enum", "class", "actor": token(1).kind == .word && ["{", ":", "<"].contains(token(2).text)
        default: false
        }
    }

    // MARK: Members

    /// Reads one declaration, or passes a token that begins none.
    private mutating func readMember(of scope: Scope) {
        let head = readHead()
        let word = token().kind == .word ? token().text : ""
        if Self.types.contains(word) {
            readType(head, scope)
        } else if Self.functions.contains(word) {
            readFunction(head, scope)
        } else if word == "let" || word == "var" {
            readProperty(head, scope)
        } else if Self.others.contains(word) {
            index += 1
            while !isAtStart, !isAt("}") { if token().isOpening { skipBrackets() } else { index += 1 } }
        } else if token().isOpening {
            skipBrackets(Scope(kind: .code, names: scope.names))
        } else {
            index += 1
        }
    }

    private mutating func readHead() -> Head {
        var head = Head()
        while true {
            let token = token()
            switch token.kind {
            case .comment:
                head.comment.append(token.text)
                index += 1
            case .directive: index += 1
            case .sign where token.text == "@":
                index += 2
                if isAt("(") { skipBrackets() }
            case .word where Self.modifiers.contains(token.text), .word where isClassModifier:
                head.modifiers.insert(token.text)
                index += 1
                if isAt("(") { skipBrackets() }
            case .word, .sign, .literal, .end: return head
            }
        }
    }

    /// `class func` and `class var`.
    private var isClassModifier: Bool {
        token().text == "class" && ["func", "var", "let", "subscript"].contains(token(1).text)
    }

    private func declaration(
        _ kind: SourceDeclaration.Kind, _ name: String, at line: Int, _ head: Head, _ scope: Scope
    ) -> SourceDeclaration {
        SourceDeclaration(
            kind: kind, name: (scope.names + [name]).joined(separator: "."), line: line, endLine: nil,
            modifiers: head.modifiers, comment: head.comment, isRequirement: scope.kind == .requirements)
    }

    private mutating func readType(_ head: Head, _ scope: Scope) {
        let word = token().text
        var declaration = declaration(.type, token(1).text, at: token().line, head, scope)
        var names = scope.names + [token(1).text]
        index += 2
        while isAt("."), token(1).kind == .word {
            names.append(token(1).text)
            index += 2
        }
        while !isAt("{"), token().kind != .end {
            declaration.heritage.insert(token().text)
            index += 1
        }
        let place = found.count
        if word != "extension" { found.append(declaration) }
        let inside = Scope(
            kind: word == "protocol" ? .requirements : .type, names: names,
            type: word == "extension" || word == "protocol" ? nil : place)
        index += 1
        while !isAt("}"), token().kind != .end { readMember(of: inside) }
        if token().kind == .end { isBalanced = false }
        if word != "extension" { found[place].endLine = token().line }
        index += 1
    }

    private mutating func readFunction(_ head: Head, _ scope: Scope) {
        let keyword = index
        var name = token().text
        index += 1
        if name == "func" {
            name = ""
            // An operator may begin with the sign of generics.
            while token().kind != .end, name.isEmpty || !isAt("(") && !isAt("<") {
                name += token().text
                index += 1
            }
        }
        var declaration = declaration(.function, name, at: tokens[keyword].line, head, scope)
        var isResult = false
        while !isAt("{"), !isAt("}"), !isAtStart {
            if token().isOpening {
                skipBrackets()
                continue
            }
            if isAt("->") { isResult = true }
            // A result may be a function that throws.
            if token().text == "throws", !isResult { declaration.throwsErrors = true }
            index += 1
        }
        let place = found.count
        found.append(declaration)
        if isAt("{") { found[place].endLine = skipBrackets(Scope(kind: .code, names: scope.names + [name])) }
    }

    private mutating func readProperty(_ head: Head, _ scope: Scope) {
        var declaration = declaration(.property, token(1).text, at: token().line, head, scope)
        index += 1
        var names = 1
        var (angles, hasValue, isComputed) = (0, false, false)
        while !isAtStart, !isAt("}") {
            let token = token()
            if isAt("{"), !hasValue, !["didSet", "willSet"].contains(self.token(1).text) {
                isComputed = true
                if self.token(1).text == "get", self.token(2).text == "throws" { declaration.throwsErrors = true }
                declaration.endLine = skipBrackets(Scope(kind: .code, names: scope.names))
            } else if token.isOpening {
                skipBrackets(Scope(kind: .code, names: scope.names))
            } else {
                switch token.text {
                case "=": hasValue = true
                case "<" where !hasValue: angles += 1
                case ">" where !hasValue: angles -= 1
                case "," where angles == 0:
                    names += 1
                    hasValue = false
                default: break
                }
                index += 1
            }
        }
        let isStatic = head.modifiers.contains("static") || head.modifiers.contains("class")
        if isComputed {
            found.append(declaration)
        } else if let type = scope.type, !isStatic {
            found[type].storedProperties += names
        }
    }
}
