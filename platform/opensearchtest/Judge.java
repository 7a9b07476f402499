import java.io.IOException;
import java.io.Reader;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Pattern;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.LowerCaseFilter;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.core.WhitespaceTokenizer;
import org.apache.lucene.analysis.miscellaneous.ASCIIFoldingFilter;
import org.apache.lucene.analysis.pattern.PatternReplaceCharFilter;
import org.apache.lucene.analysis.standard.StandardTokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.sandbox.search.CombinedFieldQuery;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.MatchAllDocsQuery;
import org.apache.lucene.search.MatchNoDocsQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.util.BytesRef;
import org.opensearch.cluster.service.ClusterService;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.lucene.search.Queries;
import org.opensearch.common.settings.Settings;
import org.opensearch.core.common.io.stream.StreamInput;
import org.opensearch.core.common.io.stream.StreamOutput;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.env.Environment;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.index.analysis.AnalyzerProvider;
import org.opensearch.index.analysis.AnalyzerScope;
import org.opensearch.index.analysis.PreBuiltAnalyzerProvider;
import org.opensearch.index.mapper.MappedFieldType;
import org.opensearch.index.mapper.TextSearchInfo;
import org.opensearch.index.query.AbstractQueryBuilder;
import org.opensearch.index.query.QueryShardContext;
import org.opensearch.indices.analysis.AnalysisModule.AnalysisProvider;
import org.opensearch.node.Node;
import org.opensearch.plugins.AnalysisPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.plugins.SearchPlugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * One OpenSearch node on loopback, without security. Arguments: a folder, an HTTP port (0: any), "stock" for default
 * cluster settings without combined_fields or "judge", and settings as name=value. Prints "port N" when it answers and
 * ends when its standard input does.
 */
public final class Judge extends Node {
  private Judge(Environment env, boolean stock) {
    super(env, stock ? List.of(Netty4Plugin.class) : List.of(Netty4Plugin.class, JudgePlugin.class), true);
  }

  @Override
  protected void configureNodeAndClusterIdStateListener(ClusterService clusterService) {}

  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    LogConfigurator.registerErrorListener();
    boolean stock = args[2].equals("stock");
    Settings.Builder settings = Settings.builder()
        .put("path.home", home)
        .put("cluster.name", "judge")
        .put("node.name", "judge")
        .put("discovery.type", "single-node")
        .put("network.host", "127.0.0.1")
        .put("http.port", args[1])
        .put("transport.port", "0");
    if (!stock) {
      settings.put("cluster.routing.allocation.disk.threshold_enabled", false)
          .put("indices.query.bool.max_clause_count", 100000);
    }
    for (int i = 3; i < args.length; i++) {
      int at = args[i].indexOf('=');
      settings.put(args[i].substring(0, at), args[i].substring(at + 1));
    }
    Node node = new Judge(new Environment(settings.build(), home.resolve("config")), stock);
    node.start();
    InetSocketAddress at = node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress().address();
    System.out.println("port " + at.getPort());
    while (System.in.read() >= 0) {
      // until the parent closes it, or is gone
    }
    node.close();
  }

  /**
   * combined_fields, which Elasticsearch has and OpenSearch 2 lacks, over the query of Lucene's that both have, with
   * the fields that Elasticsearch's CombinedFieldsQueryBuilder accepts, whatever the text is; and the analyzers of the
   * subfields, from Lucene's parts, which are in a module of OpenSearch's distribution.
   */
  public static final class JudgePlugin extends Plugin implements SearchPlugin, AnalysisPlugin {
    @Override
    public Map<String, AnalysisProvider<AnalyzerProvider<? extends Analyzer>>> getAnalyzers() {
      return Map.of(
          "folded", (index, env, name, s) -> new PreBuiltAnalyzerProvider(name, AnalyzerScope.INDICES, new Folded()),
          "code", (index, env, name, s) -> new PreBuiltAnalyzerProvider(name, AnalyzerScope.INDICES, new Code()));
    }

    @Override
    public List<QuerySpec<?>> getQueries() {
      return List.of(new QuerySpec<>(CombinedFields.NAME, CombinedFields::new, CombinedFields::parse));
    }
  }

  /** Standard tokens in lower case, folded. */
  static final class Folded extends Analyzer {
    @Override
    protected TokenStreamComponents createComponents(String field) {
      Tokenizer tokens = new StandardTokenizer();
      return new TokenStreamComponents(tokens, normalize(field, tokens));
    }

    @Override
    protected TokenStream normalize(String field, TokenStream in) {
      return new ASCIIFoldingFilter(new LowerCaseFilter(in));
    }
  }

  /** Words between white space in lower case, without the punctuation around them. */
  static final class Code extends Analyzer {
    private static final String SPACE =
        "[\\s\\x1c-\\x1f\\u1680\\u2000-\\u2006\\u2008-\\u200a\\u2028\\u2029\\u205f\\u3000]";
    private static final Pattern OPENING = Pattern.compile("(^|" + SPACE + ")[(\\[{<\"']+");
    private static final Pattern CLOSING = Pattern.compile("[)\\]}>\"',;:!?.]+($|" + SPACE + ")");

    @Override
    protected Reader initReader(String field, Reader reader) {
      return new PatternReplaceCharFilter(CLOSING, "$1", new PatternReplaceCharFilter(OPENING, "$1", reader));
    }

    @Override
    protected TokenStreamComponents createComponents(String field) {
      Tokenizer words = new WhitespaceTokenizer();
      return new TokenStreamComponents(words, normalize(field, words));
    }

    @Override
    protected TokenStream normalize(String field, TokenStream in) {
      return new LowerCaseFilter(in);
    }
  }

  public static final class CombinedFields extends AbstractQueryBuilder<CombinedFields> {
    static final String NAME = "combined_fields";
    private final Map<String, Float> fields = new LinkedHashMap<>();
    private String query = "";
    private String minimum = "";
    private boolean and;
    private boolean allWhenEmpty;

    CombinedFields() {}

    CombinedFields(StreamInput in) throws IOException {
      super(in);
      fields.putAll(in.readMap(StreamInput::readString, StreamInput::readFloat));
      query = in.readString();
      minimum = in.readString();
      and = in.readBoolean();
      allWhenEmpty = in.readBoolean();
    }

    @Override
    protected void doWriteTo(StreamOutput out) throws IOException {
      out.writeMap(fields, StreamOutput::writeString, StreamOutput::writeFloat);
      out.writeString(query);
      out.writeString(minimum);
      out.writeBoolean(and);
      out.writeBoolean(allWhenEmpty);
    }

    static CombinedFields parse(XContentParser parser) throws IOException {
      CombinedFields q = new CombinedFields();
      Map<String, Object> args = parser.map();
      for (Map.Entry<String, Object> e : args.entrySet()) {
        String v = String.valueOf(e.getValue());
        switch (e.getKey()) {
          case "fields":
            for (Object f : (List<?>) e.getValue()) {
              String[] nameAndBoost = f.toString().split("\\^");
              q.fields.put(nameAndBoost[0], nameAndBoost.length > 1 ? Float.parseFloat(nameAndBoost[1]) : 1f);
            }
            break;
          case "query": q.query = v; break;
          case "operator": q.and = v.equalsIgnoreCase("and"); break;
          case "minimum_should_match": q.minimum = v; break;
          case "zero_terms_query": q.allWhenEmpty = v.equalsIgnoreCase("all"); break;
          case "boost": q.boost(Float.parseFloat(v)); break;
          default: throw new IllegalArgumentException("combined_fields does not know " + e.getKey());
        }
      }
      return q;
    }

    @Override
    protected Query doToQuery(QueryShardContext context) throws IOException {
      Map<String, Float> mapped = new LinkedHashMap<>();
      Analyzer analyzer = null;
      for (Map.Entry<String, Float> e : fields.entrySet()) {
        Collection<String> names = context.simpleMatchToIndexNames(e.getKey());
        for (String name : names) {
          MappedFieldType type = context.fieldMapper(name);
          if (type == null || e.getKey().contains("*") && type.getTextSearchInfo() == TextSearchInfo.NONE) continue;
          if (!type.typeName().equals("text")) {
            throw new IllegalArgumentException(
                "Field [" + name + "] of type [" + type.typeName() + "] does not support [" + NAME + "] queries");
          }
          if (e.getValue() < 1) {
            throw new IllegalArgumentException("[" + NAME + "] requires field boosts to be >= 1.0");
          }
          Analyzer own = context.getSearchAnalyzer(type);
          if (analyzer != null && !analyzer.equals(own)) {
            throw new IllegalArgumentException(
                "All fields in [" + NAME + "] query must have the same search analyzer");
          }
          analyzer = own;
          mapped.merge(name, e.getValue(), (a, b) -> a * b);
        }
      }
      if (mapped.isEmpty()) return new MatchNoDocsQuery("no field is mapped");
      List<Query> terms = new ArrayList<>();
      try (TokenStream stream = analyzer.tokenStream("f", query)) {
        CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
        stream.reset();
        while (stream.incrementToken()) {
          CombinedFieldQuery.Builder b = new CombinedFieldQuery.Builder();
          mapped.forEach(b::addField);
          terms.add(b.addTerm(new BytesRef(term.toString())).build());
        }
        stream.end();
      }
      if (terms.isEmpty()) return allWhenEmpty ? new MatchAllDocsQuery() : new MatchNoDocsQuery("no term");
      if (terms.size() == 1) return terms.get(0);
      BooleanQuery.Builder all = new BooleanQuery.Builder();
      terms.forEach(t -> all.add(t, and ? BooleanClause.Occur.MUST : BooleanClause.Occur.SHOULD));
      return Queries.maybeApplyMinimumShouldMatch(all.build(), minimum.isEmpty() ? null : minimum);
    }

    @Override
    protected void doXContent(XContentBuilder b, Params p) throws IOException {
      b.startObject(NAME).field("fields", fields).field("query", query).endObject();
    }

    @Override
    protected boolean doEquals(CombinedFields o) {
      return fields.equals(o.fields) && query.equals(o.query) && minimum.equals(o.minimum) && and == o.and && allWhenEmpty == o.allWhenEmpty;
    }

    @Override
    protected int doHashCode() {
      return Objects.hash(fields, query, minimum, and, allWhenEmpty);
    }

    @Override
    public String getWriteableName() {
      return NAME;
    }
  }
}
