//! Provider files, in which a program declares its static probes:
//!
//! ```text
//! provider shop {
//!     probe order(int id, char *customer);
//!     probe order__done(int id);
//! };
//! ```
//!
//! `__` in a probe's name is `-` in D. What stands around providers (`#pragma D attributes`, typedefs) is
//! read over.

/// Most arguments a static probe can have.
pub const MAX_ARGUMENTS: usize = 12;

/// A provider and its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The provider's name.
    pub name: String,
    /// Its probes, in the order of the file.
    pub probes: Vec<ProbeDeclaration>,
}

/// A probe as its provider declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeDeclaration {
    /// The name as the file has it: `order__done`.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<ArgumentType>,
    /// The line of the file.
    pub line: usize,
}

impl ProbeDeclaration {
    /// The name in D: `order-done`.
    pub fn d_name(&self) -> String {
        self.name.replace("__", "-")
    }
}

/// The type of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentType {
    /// The type without the argument's name, as C has it: `unsigned int`, `struct order *`; arrays are
    /// pointers, and D's `string` is `const char *`.
    pub text: String,
    /// Whether it is a pointer.
    pub is_pointer: bool,
    /// Whether it is made of the words of the language alone, so that it means something in every program.
    pub is_built_in: bool,
}

/// What is wrong with a provider file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ProviderError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

/// Reads a provider file. It must have a provider, or it is no such file.
pub fn parse(source: &str) -> Result<Vec<Provider>, ProviderError> {
    let tokens = tokens(source)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
    };
    let mut providers = Vec::new();
    while parser.skip_to_provider() {
        let provider = parser.provider()?;
        if providers.iter().any(|p: &Provider| p.name == provider.name) {
            return Err(parser.error(format!("the provider {} is declared twice", provider.name)));
        }
        providers.push(provider);
    }
    if providers.is_empty() {
        return Err(ProviderError {
            line: 1,
            message: "no provider is declared; write `provider NAME { probe NAME(TYPE, …); };`"
                .to_owned(),
        });
    }
    Ok(providers)
}

/// A word or a sign, and its line.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        self.text
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }
}

/// Splits into words, numbers and single signs; leaves out comments, strings and lines of the preprocessor.
fn tokens(source: &str) -> Result<Vec<Token<'_>>, ProviderError> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    let mut line_is_empty = true;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
        let length = if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| ProviderError {
                line,
                message: "a comment has no end".to_owned(),
            })?;
            end + 2
        } else if rest.starts_with("//") || first == '#' && line_is_empty {
            rest.find('\n').unwrap_or(rest.len())
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token {
                text: &rest[..end],
                line,
            });
            end
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            tokens.push(Token {
                text: &rest[..first.len_utf8()],
                line,
            });
            first.len_utf8()
        };
        let (passed, after) = rest.split_at(length);
        line += passed.matches('\n').count();
        line_is_empty = passed.ends_with('\n') || line_is_empty && passed.trim().is_empty();
        rest = after;
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    /// An error at the token that was read last.
    fn error(&self, message: String) -> ProviderError {
        let last = self.tokens.len().saturating_sub(1);
        let line = self.tokens.get(self.at.saturating_sub(1).min(last));
        ProviderError {
            line: line.map_or(1, |token| token.line),
            message,
        }
    }

    fn expect(&mut self, text: &str, after: &str) -> Result<(), ProviderError> {
        match self.next() {
            Some(token) if token.text == text => Ok(()),
            found => {
                let found = found.map_or("the end of the file", |token| token.text);
                Err(self.error(format!("`{text}` is expected after {after}, not `{found}`")))
            }
        }
    }

    fn identifier(&mut self, what: &str) -> Result<&'a str, ProviderError> {
        match self.next() {
            Some(token) if token.is_word() && !token.text.contains('$') => Ok(token.text),
            found => {
                let found = found.map_or("the end of the file", |token| token.text);
                Err(self.error(format!("{what} is expected, not `{found}`")))
            }
        }
    }

    fn skip_to_provider(&mut self) -> bool {
        let left = self.tokens.get(self.at..).unwrap_or_default();
        let found = left.iter().position(|token| token.text == "provider");
        self.at += found.map_or(left.len(), |n| n + 1);
        found.is_some()
    }

    fn provider(&mut self) -> Result<Provider, ProviderError> {
        let name = self.identifier("the provider's name")?;
        self.expect("{", "the provider's name")?;
        let mut probes: Vec<ProbeDeclaration> = Vec::new();
        while self.peek() != "}" {
            let probe = self.probe(name)?;
            if probes.iter().any(|p| p.name == probe.name) {
                return Err(self.error(format!("the probe {} is declared twice", probe.name)));
            }
            probes.push(probe);
        }
        self.expect("}", "the probes")?;
        // dtrace(1) wants a `;` here; its copies for Linux do not.
        if self.peek() == ";" {
            self.next();
        }
        Ok(Provider {
            name: name.to_owned(),
            probes,
        })
    }

    fn probe(&mut self, provider: &str) -> Result<ProbeDeclaration, ProviderError> {
        if self.peek() != "probe" {
            let found = self.next().map_or("the end of the file", |t| t.text);
            return Err(self.error(format!(
                "`probe` or `}}` is expected in provider {provider}, not `{found}`"
            )));
        }
        self.next();
        let name = self.identifier("the probe's name")?;
        let line = self.tokens[self.at - 1].line;
        self.expect("(", "the probe's name")?;
        let arguments = self.arguments()?;
        // What the probe's arguments are translated to, which is of use in D scripts only.
        if self.peek() == ":" {
            self.next();
            self.expect("(", "`:`")?;
            self.arguments()?;
        }
        self.expect(";", "the probe")?;
        if arguments.len() > MAX_ARGUMENTS {
            return Err(ProviderError {
                line,
                message: format!(
                    "the probe {name} has {} arguments; {MAX_ARGUMENTS} are the most",
                    arguments.len()
                ),
            });
        }
        Ok(ProbeDeclaration {
            name: name.to_owned(),
            arguments,
            line,
        })
    }

    /// The arguments up to and with the closing parenthesis.
    fn arguments(&mut self) -> Result<Vec<ArgumentType>, ProviderError> {
        let mut arguments = Vec::new();
        loop {
            let argument = self.argument()?;
            let end = self.next().map_or("", |token| token.text);
            match (argument.as_slice(), end) {
                ([], ")") if arguments.is_empty() => return Ok(arguments),
                ([void], ")") if arguments.is_empty() && void.text == "void" => {
                    return Ok(arguments);
                }
                ([], _) => return Err(self.error("an argument's type is missing".to_owned())),
                (tokens, "," | ")") => arguments
                    .push(argument_type(tokens).map_err(|message| self.error(message.to_owned()))?),
                _ => return Err(self.error("a parenthesis is not closed".to_owned())),
            }
            if end == ")" {
                return Ok(arguments);
            }
        }
    }

    /// The tokens of one argument, up to a comma or parenthesis of the list.
    fn argument(&mut self) -> Result<Vec<Token<'a>>, ProviderError> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.at) {
            match token.text {
                "(" => depth += 1,
                ")" | "," if depth == 0 => break,
                ")" => depth -= 1,
                ";" | "{" | "}" => break,
                _ => {}
            }
            self.at += 1;
        }
        Ok(self.tokens[start..self.at].to_vec())
    }
}

const WORDS: [&str; 9] = [
    "char", "short", "int", "long", "signed", "unsigned", "float", "double", "void",
];
const QUALIFIERS: [&str; 3] = ["const", "volatile", "restrict"];

/// Takes a declaration like `const struct order *o` or `char name[16]` apart.
fn argument_type(tokens: &[Token<'_>]) -> Result<ArgumentType, &'static str> {
    let specifiers = specifiers(tokens)?;
    let (base, declarator) = tokens.split_at(specifiers);
    let words = || base.iter().filter(|t| !QUALIFIERS.contains(&t.text));
    let is_built_in = words().all(|t| WORDS.contains(&t.text));
    let mut text = base.iter().map(|t| t.text).collect::<Vec<_>>().join(" ");
    let is_string = words().map(|t| t.text).eq(["string"]);
    if is_string {
        text = "const char *".to_owned();
    }
    let function = declarator.iter().any(|t| t.text == "(");
    let stars = declarator.iter().filter(|t| t.text == "*").count();
    let arrays = declarator.iter().filter(|t| t.text == "[").count();
    check_declarator(declarator)?;
    if function {
        return Ok(ArgumentType {
            text: "void *".to_owned(),
            is_pointer: true,
            is_built_in: true,
        });
    }
    for k in 0..stars + arrays {
        text.push_str(if k == 0 && !is_string { " *" } else { "*" });
    }
    let is_pointer = stars + arrays > 0 || is_string;
    let by_value = words().map(|t| t.text).collect::<Vec<_>>();
    if !is_pointer {
        if by_value == ["void"] {
            return Err("an argument cannot be void");
        }
        if matches!(by_value[0], "struct" | "union") {
            return Err("an argument cannot be a struct or union; pass a pointer");
        }
        if by_value.contains(&"long") && by_value.contains(&"double") {
            return Err("an argument cannot be a long double; pass a double");
        }
    }
    Ok(ArgumentType {
        text,
        is_pointer,
        is_built_in: is_built_in || is_string,
    })
}

/// How many tokens say the type: qualifiers, and words of the language, a tag or one name.
fn specifiers(tokens: &[Token<'_>]) -> Result<usize, &'static str> {
    let mut named = false;
    let mut built_in = false;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            text if QUALIFIERS.contains(&text) => {}
            "struct" | "union" | "enum" if !named && !built_in => {
                at += 1;
                named = tokens.get(at).is_some_and(Token::is_word);
                if !named {
                    return Err("the name of a struct, union or enum is missing");
                }
            }
            text if WORDS.contains(&text) && !named => built_in = true,
            _ if token.is_word() && !named && !built_in => named = true,
            _ => break,
        }
        at += 1;
    }
    if named || built_in {
        Ok(at)
    } else {
        Err("an argument's type is missing")
    }
}

/// `*`s, a name, `[n]`s, or `(*name)(types)`.
fn check_declarator(tokens: &[Token<'_>]) -> Result<(), &'static str> {
    const WRONG: &str = "an argument is a type and perhaps a name";
    if tokens.iter().any(|t| t.text == "(") {
        let pointer = tokens
            .windows(2)
            .any(|w| w[0].text == "(" && w[1].text == "*");
        return pointer
            .then_some(())
            .ok_or("an argument cannot be a function; pass a pointer");
    }
    let mut names = 0;
    let mut inside = false;
    for token in tokens {
        match token.text {
            "[" => inside = true,
            "]" => inside = false,
            _ if inside => {}
            "*" if names == 0 => {}
            text if QUALIFIERS.contains(&text) => {}
            _ if token.is_word() && names == 0 => names = 1,
            _ => return Err(WRONG),
        }
    }
    if inside { Err(WRONG) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(arguments: &str) -> Vec<String> {
        let source = format!("provider p {{ probe q({arguments}); }};");
        let providers = parse(&source).unwrap_or_else(|e| panic!("{arguments}: {e}"));
        let arguments = &providers[0].probes[0].arguments;
        arguments.iter().map(|a| a.text.clone()).collect()
    }

    fn error(source: &str) -> String {
        parse(source).expect_err(source).to_string()
    }

    #[test]
    fn the_providers_of_a_file() {
        let source = "#!/usr/sbin/dtrace -s\n#pragma D attributes Evolving/Evolving/Common provider a\n\
            /* A provider { in a comment } */\ntypedef struct order { int id; } order_t;\n\
            provider a {\n  probe start();\n  probe order__done(int id, order_t *o);\n};\n\
            provider b { probe c(void); } // without a semicolon\n";
        let providers = parse(source).expect("a provider file");
        let names = |p: &Provider| p.probes.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        assert_eq!(providers.len(), 2);
        assert_eq!(
            (providers[0].name.as_str(), providers[1].name.as_str()),
            ("a", "b")
        );
        assert_eq!(names(&providers[0]), ["start", "order__done"]);
        assert_eq!(providers[0].probes[1].d_name(), "order-done");
        assert_eq!(providers[0].probes[1].line, 7);
        assert_eq!(providers[1].probes[0].arguments, []);
    }

    #[test]
    fn the_types_of_arguments() {
        assert_eq!(types("int"), ["int"]);
        assert_eq!(
            types("unsigned long long n, char c"),
            ["unsigned long long", "char"]
        );
        assert_eq!(
            types("const char *text, void *"),
            ["const char *", "void *"]
        );
        assert_eq!(
            types("struct order *o, enum colour c"),
            ["struct order *", "enum colour"]
        );
        assert_eq!(types("my_t value, my_t **list"), ["my_t", "my_t **"]);
        assert_eq!(types("string s, string"), ["const char *", "const char *"]);
        assert_eq!(types("char name[16], char *argv[]"), ["char *", "char **"]);
        assert_eq!(
            types("int (*compare)(int, int), double"),
            ["void *", "double"]
        );
        assert_eq!(types("char const *const text"), ["char const *"]);
    }

    #[test]
    fn which_types_every_program_has() {
        let source =
            "provider p { probe q(int a, long b, my_t c, struct s *d, my_t *e, string f); };";
        let arguments = &parse(source).expect("types")[0].probes[0].arguments;
        let built_in: Vec<bool> = arguments.iter().map(|a| a.is_built_in).collect();
        let pointers: Vec<bool> = arguments.iter().map(|a| a.is_pointer).collect();
        assert_eq!(built_in, [true, true, false, false, false, true]);
        assert_eq!(pointers, [false, false, false, true, true, true]);
    }

    #[test]
    fn translated_arguments_are_read_over() {
        assert_eq!(types("int *b) : (bufinfo_t *, int *"), ["int *"]);
    }

    #[test]
    fn what_is_wrong_and_where() {
        assert!(error("").contains("no provider"));
        assert!(error("provider {").contains("line 1: the provider's name is expected, not `{`"));
        assert!(error("provider p {\n probe q(int)\n};").contains("line 3: `;` is expected"));
        assert!(error("provider p {\n\n prob q();\n};").contains("line 3: `probe` or `}`"));
        assert!(error("provider p { probe q(int").contains("not closed"));
        assert!(error("provider p { probe q(int,); };").contains("type is missing"));
        assert!(error("provider p { probe q(,int); };").contains("type is missing"));
        assert!(error("provider p { probe q(int a b); };").contains("a type and perhaps a name"));
        assert!(error("provider p { probe q(void v); };").contains("cannot be void"));
        assert!(error("provider p { probe q(struct s s); };").contains("pass a pointer"));
        assert!(error("provider p { probe q(long double); };").contains("pass a double"));
        assert!(error("provider p { probe q(const); };").contains("type is missing"));
        assert!(error("provider p { probe q(); probe q(); };").contains("q is declared twice"));
        assert!(error("provider p { }; provider p { };").contains("p is declared twice"));
        assert!(error("provider p { probe q-r(); };").contains("`(` is expected"));
        assert!(error("provider p { probe 7(); };").contains("the probe's name is expected"));
        assert!(error("/* provider p {").contains("a comment has no end"));
        let many = vec!["int"; 13].join(", ");
        assert!(error(&format!("provider p {{ probe q({many}); }};")).contains("12 are the most"));
    }

    /// Every beginning of a file, and every file with a token left out, has an answer.
    #[test]
    fn damaged_files_are_survived() {
        let source =
            "typedef int t; provider p { probe a(const struct s *x[3], int (*f)(t, t)) : (t *); };";
        assert!(parse(source).is_ok());
        for end in 0..source.len() {
            assert!(parse(&source[..end]).is_err() || end > source.len() - 2);
        }
        let words: Vec<&str> = source.split_inclusive([' ', '(', ')', ',', '*']).collect();
        for left_out in 0..words.len() {
            let mut fewer = words.clone();
            fewer.remove(left_out);
            let _ = parse(&fewer.concat());
            fewer.insert(left_out, "é ");
            let _ = parse(&fewer.concat());
        }
    }
}
